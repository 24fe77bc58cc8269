"""What an observer reads from a record of Kafka: whose it is, where it lies, when it happened, what it promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegauge.errors import TidegaugeError
from writer_client.observing.names import value_name, writer_of
from writer_client.observing.observation import Row
from writer_client.observing.watching import Watching

if TYPE_CHECKING:  # an extra
    from confluent_kafka import Message


class ObserverError(TidegaugeError):
    """The observer cannot go on; the message says why, and the cure."""


class Records:
    """Reads records.

    Attributes
    ----------
    unreadable
        Where the first record lies whose time could not be read, and why; None without.
    """

    def __init__(self, watching: Watching, warn: Callable[[str], object]) -> None:
        self._watching = watching
        self._warn = warn
        self._has_warned = False
        self.unreadable: str | None = None

    def row(self, message: Message) -> Row:
        """Read a record; `ObserverError` if it is a promise that cannot be read."""
        partition, offset = place_of(message)
        promise = self._promise_of(message, partition, offset)
        time = None if promise is not None else self._time_of(message, partition, offset)
        kind, logged_ms = message.timestamp()
        writer = self._writer_of(message, partition)
        return Row(writer, partition, offset, time, logged_ms if kind else None, promise)

    def _promise_of(self, message: Message, partition: int, offset: int) -> int | None:
        if self._watching.promise_of is None:
            return None
        try:
            return self._watching.promise_of(message)
        except ValueError as error:
            msg = (
                f"the promise at offset {offset} of partition {partition} of "
                f"{self._watching.topic} cannot be read: {error}; name the place and the unit of "
                "this feed's promises, such as --promises json:/path:us"
            )
            raise ObserverError(msg) from error

    def _time_of(self, message: Message, partition: int, offset: int) -> int | None:
        if self._watching.time_of is None:
            return None
        try:
            return self._watching.time_of(message)
        except ValueError as error:
            if self.unreadable is None:
                self.unreadable = f"{partition}:{offset}: {error}"
            return None

    def _writer_of(self, message: Message, partition: int) -> str | None:
        """Name the writer that a record belongs to; None if it notes time by itself."""
        if self._watching.value_of is None:
            writer = value = str(partition)
        else:
            read = self._watching.value_of(message)
            writer, value = writer_of(read, partition), value_name(read)
            if read is None and not self._watching.is_excepted(value, writer):
                self._warn_of_nameless(message, writer, value)
        return None if self._watching.is_excepted(value, writer) else writer

    def _warn_of_nameless(self, message: Message, writer: str, value: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            partition, offset = place_of(message)
            self._warn(
                f"record {partition}:{offset} has no such header or key (--by); writer {writer!r} "
                "is that of all of its partition that have none, and holds the others like any "
                f"writer; --except {value} leaves them alone"
            )


def place_of(message: Message) -> tuple[int, int]:
    """Return partition and offset, which every record and every end has."""
    partition, offset = message.partition(), message.offset()
    if partition is None or offset is None:
        msg = "a record without a place"
        raise RuntimeError(msg)
    return partition, offset
