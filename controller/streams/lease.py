"""What says that this controller, and no other, answers for what it has in memory."""

from typing import Protocol


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
