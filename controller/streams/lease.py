"""What a controller answers for: by which right, and what moved to another a moment ago."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol

from tidegauge.errors import UnavailableError
from tidegauge.lattice import UnknownSegmentError
from tidegauge.names import StreamName

_MOMENT_S = 5.0
"""By then all that was under way here when something moved has been answered."""


class Lease(Protocol):
    """The right of a controller to hold streams and reader groups."""

    @property
    def controller(self) -> int | None:
        """The fencing token; None if there cannot be another controller."""

    @property
    def is_certain(self) -> bool:
        """Whether no other controller can have taken over, so that memory may be trusted."""


class FileLock:
    """The lease of a controller that has locked its SQLite file, from start to end."""

    controller = None
    is_certain = True


class MovedError(UnavailableError):
    """Another controller answers by now; nothing was done here."""

    def __init__(self, name: StreamName) -> None:
        super().__init__(f"{name} moves to another controller")


@contextmanager
def moved_if_scaled(name: StreamName) -> Iterator[None]:
    """Raise `MovedError` where the database names a segment that is unknown here.

    The race: this controller was paused, or cut off, for longer than its lease, and another one
    has scaled the stream since.
    """
    try:
        yield
    except UnknownSegmentError as error:
        raise MovedError(name) from error


class Relocations:
    """Names of what moved a moment ago: a caller that asks for it here gets the error to ask again."""

    def __init__(self) -> None:
        self._since: dict[StreamName, float] = {}

    def add(self, name: StreamName) -> None:
        """Record that something moves away."""
        now = monotonic()
        while self._since and now - next(iter(self._since.values())) > _MOMENT_S:
            del self._since[next(iter(self._since))]
        self._since.pop(name, None)  # the oldest are first, also of those that move twice
        self._since[name] = now

    def end(self, name: StreamName) -> None:
        """Record that what moved has no place now: it was deleted."""
        self._since.pop(name, None)

    def check(self, name: StreamName) -> None:
        """Raise `MovedError` for what moved a moment ago."""
        if monotonic() - self._since.get(name, float("-inf")) < _MOMENT_S:
            raise MovedError(name)
