"""What can go wrong with a writer, beyond what the service refuses."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

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


class FailedRecord(NamedTuple):
    """A record that Kafka may not have stored.

    Attributes
    ----------
    topic, partition, key, value, headers
        As they were produced; the partition is the one that was chosen.
    timestamp
        The one that it was produced with, ms; 0 if Kafka's client was to take the clock.
    error
        Kafka's, a ``confluent_kafka.KafkaError``.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Any
    error: Any

    @classmethod
    def of(cls, record: Any, error: object, timestamp: int, headers: Any) -> Self:  # noqa: ANN401 (of Kafka's client)
        """Keep what a delivery report has, and what a failed one lacks."""
        place, sent = (record.topic(), record.partition()), (record.key(), record.value())
        return cls(*place, *sent, timestamp, headers, error)


class DeliveryFailedError(WriterError):
    """Records were not delivered; no time that was noted behind them counts.

    Produce them again, or give them up: what is noted from now on counts again, behind whatever of
    them was stored after all. Raised once.

    Attributes
    ----------
    name
        The producer's.
    records
        What was not delivered.
    """

    def __init__(self, name: str, records: Sequence[FailedRecord]) -> None:
        self.name = name
        self.records = list(records)
        first = self.records[0]
        super().__init__(
            f"{len(self.records)} records of {name!r} were not delivered, the first to partition "
            f"{first.partition} of {first.topic!r}: {first.error}; no time noted behind them counts: "
            "produce them again or give them up, then note time again"
        )


class LogAppendTimeError(WriterError):
    """The broker replaces the timestamps of a topic's records, so no time can be noted for them.

    Attributes
    ----------
    name
        The producer's.
    topic
        Whose ``message.timestamp.type`` is ``LogAppendTime``.
    """

    def __init__(self, name: str, topic: str | None) -> None:
        self.name = name
        self.topic = topic
        super().__init__(
            f"topic {topic!r} has message.timestamp.type=LogAppendTime: its records carry the broker's "
            f"clock, and what {name!r} notes says nothing of that. Give produce() event_time= if the "
            "event time is inside the value; or let tidegauge observe kafka note the broker's clock; "
            "or set message.timestamp.type=CreateTime"
        )


class NoAcknowledgementsError(WriterError):
    """The producer asks for no acknowledgements, so it cannot know what is stored.

    Attributes
    ----------
    name
        The producer's.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name!r} does not hear where its records are stored, so no time can be noted behind "
            "them; set acks=all (librdkafka's default) instead of acks=0, and leave "
            "delivery.report.only.error out"
        )
