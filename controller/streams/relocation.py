"""What moved to another controller a moment ago: who asks for it here is told to ask again."""

from time import monotonic

from tidegauge.errors import UnavailableError
from tidegauge.names import StreamName

_MOMENT_S = 5.0


class MovedError(UnavailableError):
    """Another controller answers by now; nothing was done here."""

    def __init__(self, name: StreamName) -> None:
        super().__init__(f"{name} moves to another controller")


class Relocations:
    """Names, each for a moment: by then all that was under way here has been answered."""

    def __init__(self) -> None:
        self._since: dict[StreamName, float] = {}

    def add(self, name: StreamName) -> None:
        """Note that something moves away."""
        now = monotonic()
        while self._since and now - next(iter(self._since.values())) > _MOMENT_S:
            del self._since[next(iter(self._since))]
        self._since.pop(name, None)
        self._since[name] = now

    def end(self, name: StreamName) -> None:
        """Note that what moved is nowhere now: it was deleted."""
        self._since.pop(name, None)

    def check(self, name: StreamName) -> None:
        """Raise `MovedError` for what moved a moment ago."""
        if monotonic() - self._since.get(name, float("-inf")) < _MOMENT_S:
            raise MovedError(name)
