"""The timers of one key."""

from collections.abc import Mapping
from heapq import heappop, heappush


class Timers:
    """Pending timers by name, fired by time and, of the same time, in the order of setting.

    Parameters
    ----------
    due_times
        When each is due, in ms, in the order in which they were set.
    """

    __slots__ = ("_heap", "_next_order", "_pending")

    def __init__(self, due_times: Mapping[str, int]) -> None:
        self._pending = {
            name: (due, order, name) for order, (name, due) in enumerate(due_times.items())
        }
        self._heap = sorted(self._pending.values())
        self._next_order = len(due_times)

    def set(self, name: str, due: int) -> None:
        """Set a timer, or move it, which counts as newly set."""
        entry = (due, self._next_order, name)
        self._next_order += 1
        # Put in anew, since the dictionary is saved in its order, which is that of setting.
        self._pending.pop(name, None)
        self._pending[name] = entry
        heappush(self._heap, entry)

    def delete(self, name: str) -> None:
        """Delete a timer, if it is pending."""
        self._pending.pop(name, None)

    def pop_below(self, limit: float) -> tuple[int, str] | None:
        """Take the first timer, when it is due and its name, if it is due below the limit."""
        heap = self._heap
        while heap and heap[0][0] < limit:
            entry = heappop(heap)
            due, _, name = entry
            # Another entry, or none, is in force if the timer was moved or deleted since.
            if self._pending.get(name) is entry:
                del self._pending[name]
                return due, name
        return None

    def due_times(self) -> dict[str, int]:
        """Return when each is due, in the order in which they were set."""
        return {name: entry[0] for name, entry in self._pending.items()}
