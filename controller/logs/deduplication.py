"""What is tried again and again, and fails for one reason, is told once."""

import logging


class LogOnce:
    """Lines of a log, each told once until what they tell of is over.

    Parameters
    ----------
    log
        Takes them.
    level
        Of all of them.
    """

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._told: set[str] = set()

    def tell(self, said: str) -> None:
        """Say something, unless it was said before."""
        if said not in self._told:
            self._told.add(said)
            self._log.log(self._level, "%s", said)

    def end(self) -> None:
        """Take note that it is over: what comes next is news."""
        self._told.clear()
