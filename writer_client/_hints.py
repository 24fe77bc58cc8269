"""What looks wrong with a writer that goes on: logged once for each writer and kind."""

import logging

_log = logging.getLogger("tidegauge.writer")


class Hints:
    """Logs what looks wrong with the writers of a stream; usable from any thread."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._logged: set[tuple[str, str]] = set()

    def log(self, writer: str, kind: str, text: str, *values: object) -> None:
        """Log a text with values as a warning, unless one of its kind was logged for the writer."""
        if (writer, kind) not in self._logged:
            self._logged.add((writer, kind))
            _log.warning("writer %r of %s: %s", writer, self._stream, text % values)

    def answer(self, writer: str, hint: object) -> None:
        """Log a hint of the service, if there is one; its kind is what it asks, behind the time."""
        if isinstance(hint, str):
            self.log(writer, hint.partition(": ")[2], "%s", hint)
