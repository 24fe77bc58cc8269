"""Events on their way to the log."""

from datetime import datetime
from typing import NamedTuple

import pyarrow as pa

from tidegauge.event_time import to_event_time
from tidegauge.wire.columns import EVENT_SCHEMA

_OVERHEAD_BYTES = 64


class NewEvent(NamedTuple):
    """What a caller writes, checked and converted."""

    key: str
    event_time: int | None
    value: bytes


class Event(NamedTuple):
    """A written event; its ordinal says how many this writer wrote before it, in all segments."""

    ordinal: int
    key: str
    event_time: int | None
    value: bytes

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.key) + len(self.value) + _OVERHEAD_BYTES


class EventBatch(NamedTuple):
    """Events of one segment that are sent together, in order of their ordinals."""

    segment: int
    events: list[Event]
    size: int


def new_event(value: bytes | str, key: str, event_time: int | datetime | None) -> NewEvent:
    """Check and convert what a caller writes; raises ``TypeError`` or ``ValueError``."""
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(value, bytes):
        msg = f"value is {type(value).__name__}; pass bytes or str"
        raise TypeError(msg)
    if not isinstance(key, str):
        msg = f"key is {key!r}; pass a string, it routes the event"
        raise TypeError(msg)
    return NewEvent(key, None if event_time is None else to_event_time(event_time), value)


def encode_events(batch: EventBatch) -> bytes:
    """Encode events as an Arrow IPC stream."""
    _, *columns = zip(*batch.events, strict=True)
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, EVENT_SCHEMA, strict=True)
    ]
    with pa.BufferOutputStream() as sink:
        with pa.ipc.new_stream(sink, EVENT_SCHEMA) as stream:
            stream.write_batch(pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA))
        body: bytes = sink.getvalue().to_pybytes()
    return body
