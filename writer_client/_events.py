"""Events on their way to the log, in Arrow's columns.

Each has an ordinal, which says how many this writer wrote before it, in all segments.
"""

from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.errors import shortened
from tidegauge.event_time import describe_unheld, is_held, to_event_time
from tidegauge.wire.columns import EVENT_SCHEMA

MOST_VALUE_BYTES = 16 * 1_048_576 - 65_536
"""Of one event: the body of a request has 16 MiB at most, of which the key and Arrow take some."""
OVERHEAD_BYTES = 64
"""What an event takes beyond its key and its value, about."""

NUMBERED_SCHEMA = pa.schema(
    [*EVENT_SCHEMA, pa.field("ordinal", pa.int64()), pa.field("size", pa.int64())]
)
"""Events with their ordinals, and with about how many bytes each takes."""


class EventBatch(NamedTuple):
    """Events of one segment that are sent together, in order of their ordinals."""

    segment: int
    events: pa.RecordBatch

    @property
    def size(self) -> int:
        """About how many bytes they take."""
        total: int = pc.sum(self.events.column("size")).as_py()
        return total


class Unrouted:
    """What was written and not routed yet, in order: single events in lists, many as Arrow."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._keys: list[str] = []
        self._times: list[int | None] = []
        self._values: list[bytes] = []

    def add(self, key: str, event_time: int | None, value: bytes) -> None:
        """Add an event."""
        self._keys.append(key)
        self._times.append(event_time)
        self._values.append(value)

    def add_many(self, events: pa.RecordBatch) -> None:
        """Add events behind those that were added before."""
        self._gather()
        self._batches.append(events)

    def take(self, *, first: int) -> pa.Table:
        """Return everything, numbered from an ordinal on."""
        self._gather()
        events = pa.Table.from_batches(self._batches, EVENT_SCHEMA)
        self._batches = []
        one = pa.scalar(1, pa.int64())
        ordinals = pc.cumulative_sum(pa.repeat(one, len(events)), start=first - 1)
        columns = [*events.columns, ordinals, sizes(events)]
        return pa.Table.from_arrays(columns, schema=NUMBERED_SCHEMA)

    def _gather(self) -> None:
        if self._keys:
            columns = (self._keys, self._times, self._values)
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(columns, EVENT_SCHEMA, strict=True)
            ]
            self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA))
            self._keys, self._times, self._values = [], [], []


def sizes(events: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    """Return about how many bytes each event takes: as many as `Outbox.write` counts."""
    texts = pc.add(
        pc.utf8_length(events.column("key")), pc.binary_length(events.column("value"))
    )
    return pc.add(texts.cast(pa.int64()), OVERHEAD_BYTES)


def with_times(events: pa.RecordBatch, time: int | None) -> pa.RecordBatch:
    """Give events without a time one, if there is one."""
    if time is None:
        return events
    at = events.schema.get_field_index("event_time")
    times = events.column(at).fill_null(time)
    return events.set_column(at, events.schema.field(at), times)


def as_bytes(value: object) -> bytes:
    """Return a payload as bytes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    msg = f"value is {type(value).__name__}; pass bytes or str"
    raise TypeError(msg)


def check_value(value: object, key: str) -> bytes:
    """Return a payload as bytes, and refuse one that no request can carry."""
    payload = as_bytes(value)
    if len(payload) > MOST_VALUE_BYTES:
        raise ValueError(too_large(len(payload), key))
    return payload


def too_large(size: int, key: str) -> str:
    """Describe what is wrong with a value that no request can carry: sent, it would end the writer."""
    return (
        f"the value with key {shortened(repr(key))} has {size} bytes, and the service takes "
        f"{MOST_VALUE_BYTES}; split it, or keep it elsewhere and write where"
    )


def check_key(key: object) -> str:
    """Refuse what routes no event: anything but text that UTF-8 can encode."""
    if not isinstance(key, str):
        msg = f"key is {key!r}; pass a string, it routes the event"
        raise TypeError(msg)
    if not key.isascii():
        key.encode()
    return key


def check_time(event_time: int | datetime | None) -> int | None:
    """Return an event time in ms, or none: the service would refuse a whole batch for a wrong one."""
    time = None if event_time is None else to_event_time(event_time)
    if time is not None and not is_held(time):
        raise ValueError(describe_unheld(time))
    return time


def encode_events(events: pa.RecordBatch | pa.Table) -> bytes:
    """Encode events as an Arrow IPC stream, without their numbers."""
    with pa.BufferOutputStream() as sink:
        with pa.ipc.new_stream(sink, EVENT_SCHEMA) as stream:
            stream.write(events.select(EVENT_SCHEMA.names))
        body: bytes = sink.getvalue().to_pybytes()
    return body
