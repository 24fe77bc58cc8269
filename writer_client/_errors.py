"""What can go wrong with a writer."""

from tidegauge.errors import TidegaugeError


class WriterError(TidegaugeError):
    """The base of what this package raises."""


class EventsNotStoredError(WriterError):
    """Events that were written could not be stored; the writer has stopped.

    Attributes
    ----------
    count
        How many of the events written were not acknowledged.
    """

    def __init__(self, count: int, reason: BaseException) -> None:
        self.count = count
        super().__init__(f"{count} events were not stored: {reason}")


class WriterClosedError(WriterError):
    """The writer was closed or has left."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"writer {name!r} is closed; make another to write on")
