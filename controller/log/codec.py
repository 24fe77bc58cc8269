"""Events as Arrow: one canonical schema, encoded once, streamed without decoding.

A chunk is stored as the IPC message of its record batch alone. A reply is the schema's message,
the chunks as they lie in the database, and the end-of-stream marker: a valid IPC stream.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from tidegauge.errors import InvalidRequestError
from tidegauge.wire.columns import EVENT_SCHEMA, STORED_SCHEMA

SCHEMA_MESSAGE = STORED_SCHEMA.serialize().to_pybytes()
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
CHUNK_EVENTS = 65_536  # and so many bytes: a reader holds a chunk in memory
_CHUNK_BYTES = 4 * 1_048_576
_COMPRESSED_FROM_BYTES = 1_024  # shorter messages become hardly shorter
_HEADER, _COMPRESSION = 2, 3
"""Numbers of fields in Arrow's flatbuffers: of a message, and of a record batch."""
_FORMERLY_COMPRESSED = b"ARROW:experimental_compression"
"""How a message said so before Arrow 1.0; it is still understood."""
_LZ4 = ipc.IpcWriteOptions(compression="lz4")


class EncodedEvents(NamedTuple):
    """Events as one chunk stores them: the IPC message of their record batch."""

    rows: int
    greatest_time: int | None
    """Event time, ms; None if none has one."""
    append_time: int
    """Wall clock of the append, ms."""
    message: bytes


def encode_chunks(
    events: pa.RecordBatch, *, writer: str | None, append_time: int
) -> list[EncodedEvents]:
    """Encode events as they are stored, in chunks that a reader can hold in memory.

    With the writer, None if it is not known, and the wall clock of the append, ms.
    """
    affordable = events.num_rows * _CHUNK_BYTES // max(1, events.nbytes)
    step = max(1, min(CHUNK_EVENTS, affordable))
    parts = (events.slice(start, step) for start in range(0, events.num_rows, step))
    return [
        EncodedEvents(
            part.num_rows,
            pc.max(part.column("event_time")).as_py(),
            append_time,
            encode(_as_stored(part, writer, append_time)),
        )
        for part in parts
    ]


def encode(stored: pa.RecordBatch) -> bytes:
    """Encode stored events as one message."""
    if ipc.get_record_batch_size(stored) <= _COMPRESSED_FROM_BYTES:
        message: bytes = stored.serialize().to_pybytes()
        return message
    with pa.BufferOutputStream() as sink:
        with ipc.new_stream(sink, STORED_SCHEMA, options=_LZ4) as writer:
            writer.write_batch(stored)
        stream = memoryview(sink.getvalue())
    return bytes(stream[len(SCHEMA_MESSAGE) : -len(END_OF_STREAM)])


def decode(message: bytes) -> pa.RecordBatch:
    """Read stored events back."""
    return ipc.read_record_batch(pa.py_buffer(message), STORED_SCHEMA)


def without_first(message: bytes, count: int) -> bytes:
    """Encode stored events anew, without the first ones."""
    return encode(decode(message).slice(count))


def merge(messages: Iterable[bytes]) -> bytes:
    """Make one message of the events of several."""
    batches = [decode(message) for message in messages]
    return encode(_one_batch(pa.Table.from_batches(batches, STORED_SCHEMA)))


def first_reaching(message: bytes, time: int) -> int:
    """Return the first of stored events whose time is at or above one.

    0 if there is none: what lay before these events, and was truncated, had reached it already.
    """
    found = pc.indices_nonzero(pc.greater_equal(decode(message).column("event_time"), time))
    index: int = found[0].as_py() if len(found) else 0
    return index


def read_arrow(body: bytes) -> pa.RecordBatch:
    """Read the events of a request that is an Arrow IPC stream.

    Its columns must be those of an event: text, integer ms, bytes or text, the first and the last
    without nulls.
    """
    try:
        with ipc.open_stream(pa.py_buffer(body)) as reader:
            _check_schema(reader.schema)
            # Compressed, it would be larger in memory than a body may be.
            for message in ipc.MessageReader.open_stream(pa.py_buffer(body)):
                is_batch = message.type == "record batch"
                if is_batch and _is_compressed(message.metadata.to_pybytes()):
                    raise InvalidRequestError.of("body", "is compressed; send it uncompressed")
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise InvalidRequestError.of("body", f"is not an Arrow IPC stream: {error}") from error
    for name in ("key", "value"):
        column = table.column(name)
        if column.null_count:
            text = f"{column.null_count} of {len(column)} are null; only event_time may be"
            raise InvalidRequestError.of(name, text)
    try:
        events = _one_batch(table.cast(EVENT_SCHEMA))
    except (pa.ArrowException, ValueError) as error:
        raise InvalidRequestError.of("body", f"{error}; send {EVENT_SCHEMA}") from error
    return events


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check_schema(schema: pa.Schema) -> None:
    if schema.names != EVENT_SCHEMA.names:
        message = f"has columns {schema.names}; send {EVENT_SCHEMA.names}"
        raise InvalidRequestError.of("body", message)
    key, time, value = schema.types
    is_bytes = _is_text(value) or pa.types.is_binary(value) or pa.types.is_large_binary(value)
    is_time = pa.types.is_integer(time) or pa.types.is_null(time)
    for field, fits, wanted in zip(
        schema,
        (_is_text(key), is_time, is_bytes),
        ("string", "int64, milliseconds", "binary"),
        strict=True,
    ):
        if not fits:
            raise InvalidRequestError.of(field.name, f"is {field.type}; cast it to {wanted}")


def _is_compressed(metadata: bytes) -> bool:
    """Return whether the flatbuffer of a record batch has its field ``compression``."""
    if _FORMERLY_COMPRESSED in metadata:
        return True
    message = _at(metadata, 0, 0)
    header = _at(metadata, message, _field(metadata, message, _HEADER))
    return _field(metadata, header, _COMPRESSION) != 0


def _at(metadata: bytes, start: int, field: int) -> int:
    """Follow a flatbuffer's reference from one of a table's fields."""
    (distance,) = struct.unpack_from("<I", metadata, start + field)
    return start + field + int(distance)


def _field(metadata: bytes, table: int, number: int) -> int:
    """Return where a field lies in a flatbuffer's table; 0 if it is not there."""
    (distance,) = struct.unpack_from("<i", metadata, table)
    places = table - distance
    (size,) = struct.unpack_from("<H", metadata, places)
    if size < 6 + 2 * number:
        return 0
    (place,) = struct.unpack_from("<H", metadata, places + 4 + 2 * number)
    return int(place)


def _as_stored(events: pa.RecordBatch, writer: str | None, append_time: int) -> pa.RecordBatch:
    count = events.num_rows
    times = pa.repeat(pa.scalar(append_time, pa.int64()), count)
    writers = pa.repeat(pa.scalar(writer, pa.string()), count)
    columns = [*events.columns, times, writers]
    return pa.RecordBatch.from_arrays(columns, schema=STORED_SCHEMA)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
