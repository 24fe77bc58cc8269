"""What can go wrong with a writer, beyond what the service refuses."""

from tidegauge.client.sync import ClientClosedError
from tidegauge.errors import WriterError


class EventsNotStoredError(WriterError):
    """What was written and noted could not be stored; the writer has stopped.

    Attributes
    ----------
    count
        How many events were written and not acknowledged when it stopped.
    notes
        How many noted times were not.
    reason
        What happened.
    """

    def __init__(self, count: int, notes: int, reason: BaseException) -> None:
        self.count = count
        self.notes = notes
        self.reason = reason
        super().__init__(f"{count} events and {notes} noted times were not stored: {reason}")


class WriterClosedError(WriterError, ClientClosedError):
    """The writer was closed or has left.

    Attributes
    ----------
    name
        The writer's.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"writer {name!r} is closed; make another to write on")


class TransactionOpenError(WriterError):
    """A call that has to wait until the writer's open transaction has ended.

    Attributes
    ----------
    name
        The writer's.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(f"writer {name!r} has an open transaction: {reason}")
