"""What must hold whoever was killed, checked event by event as it is read. No I/O, no clock."""

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from operator import itemgetter

_MARKS_KEPT = 200
_LOWERS_KEPT = 1_000
_BATCHES_KEPT = 100


class BrokenPromiseError(Exception):
    """Something was lost, doubled, out of order, late, or went back."""


class Ledger:
    """Which events were acknowledged, and which were read, by key and number.

    The numbers of a key rise from 0. A writer that was killed never uses one again that it may have
    written, and goes on after it: so numbers may be missing, but none that was acknowledged.
    """

    def __init__(self) -> None:
        self._awaited = defaultdict[str, set[int]](set)
        """Acknowledged, and not read yet."""
        self._passed = defaultdict[str, set[int]](set)
        """Missing among those that were read."""
        self._next = defaultdict[str, int](int)
        self.read_count = 0

    def acknowledge(self, key: str, numbers: range) -> None:
        """Record that events are stored."""
        self._awaited[key].update(one for one in numbers if one >= self._next[key])
        self._check(key, self._passed[key].intersection(numbers))

    def read(self, key: str, number: int) -> None:
        """Record that an event was read, after all of its key that were read before."""
        following = self._next[key]
        if number < following:
            msg = f"event {number} of key {key} came again, or out of order: after {following - 1}"
            raise BrokenPromiseError(msg)
        passed = range(following, number)
        self._passed[key].update(passed)
        self._check(key, self._awaited[key].intersection(passed))
        self._awaited[key].discard(number)
        self._next[key] = number + 1
        self.read_count += 1

    def unread(self) -> dict[str, int]:
        """Return the next number to be read of each key of which acknowledged events are unread."""
        return {key: self._next[key] for key, numbers in self._awaited.items() if numbers}

    @staticmethod
    def _check(key: str, lost: set[int]) -> None:
        if lost:
            msg = f"event {min(lost)} of key {key} was acknowledged, and later ones came without it"
            raise BrokenPromiseError(msg)


class Timeline:
    """The marks of a stream, and events where they lie: none lies behind a mark that is above it."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._marks = deque[tuple[int, Mapping[int, int]]](maxlen=_MARKS_KEPT)
        self._beyond: list[tuple[int, int, int]] = []
        """Events that the newest mark does not cover: segment, offset, time."""
        self._read = defaultdict[int, int](int)
        self._told: int | None = None
        self.revision = 0

    def mark(self, revision: int, lower: int, counts: Mapping[int, int]) -> None:
        """Take the next mark, with the number of events of each segment that it covers."""
        if self._marks:
            before, covered = self._marks[-1]
            back = [one for one, count in covered.items() if counts.get(one, 0) < count]
            if revision <= self.revision or lower <= before or back:
                msg = f"mark {revision} of {self._stream} goes back: {lower} after {before}, in {back}"
                raise BrokenPromiseError(msg)
        self.revision = revision
        self._marks.append((lower, counts))
        self._beyond = [one for one in self._beyond if one[1] >= counts.get(one[0], 0)]
        for segment, offset, time in self._beyond:
            self._check(lower, segment, offset, time)

    def told(self, watermark: int | None) -> None:
        """Take what a controller says, asked after all answers before."""
        if self._told is not None and (watermark is None or watermark < self._told):
            msg = f"the watermark of {self._stream} went back from {self._told} to {watermark}"
            raise BrokenPromiseError(msg)
        self._told = watermark

    def event(self, segment: int, offset: int, time: int) -> None:
        """Take the next event of a segment."""
        self._read[segment] = offset + 1
        before = [lower for lower, counts in self._marks if counts.get(segment, 0) <= offset]
        if before:
            self._check(before[-1], segment, offset, time)
        if len(before) == len(self._marks):
            self._beyond.append((segment, offset, time))

    def complete_below(self) -> int:
        """Return the time below which every event was taken: the newest mark that is passed."""
        for lower, counts in reversed(self._marks):
            if all(self._read[segment] >= count for segment, count in counts.items()):
                return lower
        return 0

    def _check(self, lower: int, segment: int, offset: int, time: int) -> None:
        if time < lower:
            msg = f"the event at {segment}:{offset} of {self._stream}, at {time}, is behind the mark at {lower}"
            raise BrokenPromiseError(msg)


class Windows:
    """Counts by windows of time: what a query puts out is the truth, each window once, in order."""

    def __init__(self, query: str, size_ms: int) -> None:
        self._query = query
        self._size_ms = size_ms
        self._truth = Counter[int]()
        self._taken: dict[int, list[tuple[int, int]]] = {}
        self._waiting = deque[tuple[int, int]]()
        self.checked = 0

    def event(self, time: int) -> None:
        """Count an event of the log."""
        self._truth[time - time % self._size_ms] += 1

    def result(self, batch: int, rows: Sequence[tuple[int, int]]) -> None:
        """Take starts and counts that a batch put out; a repeated one has to be the same."""
        found = sorted(rows)
        if batch in self._taken:
            if self._taken[batch] != found:
                msg = (
                    f"batch {batch} of {self._query} put out {self._taken[batch]}, then {found}"
                )
                raise BrokenPromiseError(msg)
            return
        self._taken[batch] = found
        self._taken.pop(batch - _BATCHES_KEPT, None)
        self._waiting += found

    def check(self, complete_below: int) -> None:
        """Compare those results with the truth for which it is complete."""
        while self._waiting and self._waiting[0][0] + self._size_ms <= complete_below:
            told = self._waiting.popleft()
            truth = min(self._truth.items(), default=None)
            if told != truth:
                msg = f"{self._query} put out window {told}, the next one is {truth}"
                raise BrokenPromiseError(msg)
            del self._truth[told[0]]
            self.checked += 1


class Group:
    """What the readers of a group returned, and the lower ends of its time window meanwhile.

    Together they skip no event, and none comes first after the window has passed its time. Times
    ``at`` are of one clock; what readers say may come in any order before it is settled.
    """

    def __init__(self) -> None:
        self._returned: list[tuple[float, int, int, Sequence[int]]] = []
        self._next = defaultdict[int, int](int)
        self._lowers = deque[tuple[float, int]](maxlen=_LOWERS_KEPT)

    def window(self, at: float, lower: int) -> None:
        """Take what the group was told to have passed."""
        if self._lowers and lower < self._lowers[-1][1]:
            msg = f"the window of the group went back from {self._lowers[-1][1]} to {lower}"
            raise BrokenPromiseError(msg)
        self._lowers.append((at, lower))

    def returned(self, at: float, segment: int, first: int, times: Sequence[int]) -> None:
        """Take the times of events that a reader returned, from an offset on."""
        heappush(self._returned, (at, segment, first, times))

    def settle(self, until: float) -> None:
        """Check what was returned until a time; every reader has told of it."""
        while self._returned and self._returned[0][0] <= until:
            at, segment, first, times = heappop(self._returned)
            following = self._next[segment]
            if first > following:
                msg = f"the readers skipped segment {segment} from {following} to {first}"
                raise BrokenPromiseError(msg)
            new = times[following - first :]
            self._next[segment] = max(following, first + len(times))
            told = bisect_left(self._lowers, at, key=itemgetter(0))
            if new and told and min(new) < self._lowers[told - 1][1]:
                lower = self._lowers[told - 1][1]
                msg = f"an event at {min(new)} first came to a reader after its group was told {lower}"
                raise BrokenPromiseError(msg)
