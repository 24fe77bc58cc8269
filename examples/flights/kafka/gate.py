"""A gate that holds queries between two batches, so that all of them read the same ones."""

from threading import Condition


class Gate:
    """Lets all queries through when it is opened, and each of them once.

    A query waits at the end of a batch; what is written meanwhile is what its next batch reads.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting = 0
        self._opened = 0
        self._is_removed = False

    @property
    def waiting(self) -> int:
        """How many have come since it was opened last."""
        with self._changed:
            return self._waiting

    def wait(self) -> None:
        """Wait until it is opened, in the thread of a query."""
        with self._changed:
            opened = self._opened
            self._waiting += 1
            self._changed.wait_for(lambda: self._opened > opened or self._is_removed)

    def open(self) -> None:
        """Let those through that wait, and nobody who comes later."""
        with self._changed:
            self._opened += 1
            self._waiting = 0
            self._changed.notify_all()

    def remove(self) -> None:
        """Let everybody through from now on."""
        with self._changed:
            self._is_removed = True
            self._changed.notify_all()
