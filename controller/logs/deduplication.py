"""What is tried again and again, and fails for one reason, is logged once."""

import logging


class LogOnce:
    """Lines of a log, each written once until what they report is over."""

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._logged: set[str] = set()

    def log(self, line: str) -> None:
        """Log a line, unless it was logged before; a text of several becomes one."""
        line = " ".join(line.split())
        if line not in self._logged:
            self._logged.add(line)
            self._log.log(self._level, "%s", line)

    def end(self) -> None:
        """Record that it is over: what comes next is logged again."""
        self._logged.clear()
