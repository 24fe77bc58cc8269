"""Events as Arrow: one canonical schema, encoded once, streamed without decoding.

A chunk is stored as the IPC message of its record batch alone. A reply is the schema's message,
the chunks as they lie in the database, and the end-of-stream marker: a valid IPC stream.
"""

import base64
import binascii
from collections.abc import Iterable

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from tidegauge.errors import InvalidRequestError
from tidegauge.event_time import parse_event_time
from tidegauge.wire.events import EVENT_SCHEMA

_LZ4 = ipc.IpcWriteOptions(compression="lz4")
SCHEMA_MESSAGE = EVENT_SCHEMA.serialize().to_pybytes()
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


def encode(events: pa.RecordBatch) -> bytes:
    """Encode events as they are stored."""
    message: bytes = events.serialize().to_pybytes()
    if len(message) > 1_024:
        with pa.BufferOutputStream() as sink:
            with ipc.new_stream(sink, EVENT_SCHEMA, options=_LZ4) as writer:
                writer.write_batch(events)
            stream = sink.getvalue().to_pybytes()
        message = stream[len(SCHEMA_MESSAGE) : -len(END_OF_STREAM)]
    return message


def decode(message: bytes) -> pa.RecordBatch:
    """Read stored events back."""
    return ipc.read_record_batch(pa.py_buffer(message), EVENT_SCHEMA)


def read_arrow(body: bytes) -> pa.RecordBatch:
    """Read the events of a request that is an Arrow IPC stream.

    Raises
    ------
    InvalidRequestError
        If it is none, or its columns are not those of an event.
    """
    try:
        with ipc.open_stream(pa.py_buffer(body)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InvalidRequestError.of("body", f"is no Arrow IPC stream: {error}") from error
    if table.column_names != EVENT_SCHEMA.names:
        message = f"has columns {table.column_names}; send {EVENT_SCHEMA.names}"
        raise InvalidRequestError.of("body", message)
    try:
        table = table.cast(EVENT_SCHEMA)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InvalidRequestError.of("body", f"{error}; send {EVENT_SCHEMA}") from error
    return _one_batch(table)


def read_ndjson(body: bytes) -> pa.RecordBatch:
    """Read the events of a request with one JSON object a line.

    Raises
    ------
    InvalidRequestError
        Naming the first line that is none, what is wrong with it, and the cure.
    """
    columns: tuple[list[str], list[int | None], list[bytes]] = ([], [], [])
    for number, line in enumerate(body.splitlines(), start=1):
        if line.strip():
            try:
                event = _event(line)
            except ValueError as error:
                raise InvalidRequestError.of(f"line {number}", str(error)) from error
            for column, value in zip(columns, event, strict=True):
                column.append(value)  # type: ignore[arg-type]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, EVENT_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA)


def greatest_time(events: pa.RecordBatch) -> int | None:
    """Find the greatest event time; None if no event has one."""
    greatest: int | None = pc.max(events.column("event_time")).as_py()
    return greatest


def concatenate(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Make one batch of several."""
    return _one_batch(pa.Table.from_batches(batches, EVENT_SCHEMA))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], EVENT_SCHEMA)


_FIELDS = {"key", "event_time", "value", "value_base64"}


def _event(line: bytes) -> tuple[str, int | None, bytes]:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        msg = f"is no JSON: {error}"
        raise ValueError(msg) from error
    if not isinstance(event, dict):
        msg = 'is no object; send {"key": …, "event_time": …, "value": …}'
        raise ValueError(msg)  # noqa: TRY004 (answered like the others)
    if unknown := event.keys() - _FIELDS:
        msg = f"has unknown fields {sorted(unknown)}; send some of {sorted(_FIELDS)}"
        raise ValueError(msg)
    if not isinstance(event.get("key"), str):
        msg = f"key is {event.get('key')!r}; send a string, it routes the event"
        raise ValueError(msg)
    time = event.get("event_time")
    return event["key"], None if time is None else parse_event_time(time), _value(event)


def _value(event: dict[str, object]) -> bytes:
    if ("value" in event) == ("value_base64" in event):
        msg = "send either value or value_base64"
        raise ValueError(msg)
    value = event.get("value", event.get("value_base64"))
    if not isinstance(value, str):
        msg = f"value is {value!r}; send a string, or bytes as value_base64"
        raise ValueError(msg)  # noqa: TRY004 (answered like the others)
    if "value" in event:
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        msg = f"value_base64 is no base64: {error}"
        raise ValueError(msg) from error
