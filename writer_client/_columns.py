"""What a caller writes in bulk, checked and converted to Arrow's columns."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.errors import shortened
from tidegauge.event_time import describe_unheld, is_held
from tidegauge.wire.columns import EVENT_SCHEMA
from writer_client._events import MOST_VALUE_BYTES, as_bytes, check_key, check_time, too_large

Column: TypeAlias = pa.Array | pa.ChunkedArray
Values: TypeAlias = Sequence[bytes | str] | pa.Array | pa.ChunkedArray
Keys: TypeAlias = Sequence[str] | pa.Array | pa.ChunkedArray
EventTimes: TypeAlias = Sequence[int | datetime | None] | pa.Array | pa.ChunkedArray

_TABLE_COLUMNS = (["key", "value"], sorted(EVENT_SCHEMA.names))


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    )


def _is_payload(kind: pa.DataType) -> bool:
    return _is_text(kind) or bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_null(kind))


_IS_KIND = {pa.string(): _is_text, pa.binary(): _is_payload, pa.int64(): _is_time}


def to_events(
    values: Values | pa.Table | pa.RecordBatch,
    keys: Keys | None,
    event_times: EventTimes | None,
) -> pa.Table:
    """Make a table of events; raises ``TypeError`` or ``ValueError`` that names what is wrong."""
    if isinstance(values, pa.Table | pa.RecordBatch):
        values, keys, event_times = _columns_of(values, keys, event_times)
    if keys is None:
        msg = "keys are missing; pass one for each value, it routes the event"
        raise TypeError(msg)
    given = {"keys": keys, "event_times": event_times, "values": values}
    for name, column in given.items():
        if isinstance(column, str | bytes):
            msg = f"{name} is a single {type(column).__name__}; pass a list or an Arrow array"
            raise TypeError(msg)
        if column is not None and len(column) != len(values):
            msg = f"{len(values)} values and {len(column)} {name}; pass as many"
            raise ValueError(msg)
    if event_times is None:
        event_times = pa.nulls(len(values), pa.int64())
    columns = [
        _column("keys", keys, pa.string(), check_key),
        _column("event_times", event_times, pa.int64(), check_time),
        _column("values", values, pa.binary(), as_bytes),
    ]
    events = pa.Table.from_arrays(columns, schema=EVENT_SCHEMA)
    sizes = pc.binary_length(events.column("value"))
    largest = pc.max(sizes).as_py() or 0  # comparing a column with a number imports pandas
    if largest > MOST_VALUE_BYTES:
        at = pc.index(sizes, largest).as_py()
        msg = f"values[{at}]: {too_large(largest, events.column('key')[at].as_py())}"
        raise ValueError(msg)
    _refuse_unheld(events)
    return events


def _refuse_unheld(events: pa.Table) -> None:
    times = events.column("event_time")
    for time in (one.as_py() for one in pc.min_max(times).values()):
        if time is not None and not is_held(time):
            at = pc.index(times, time).as_py()
            key = shortened(repr(events.column("key")[at].as_py()))
            msg = f"event_times[{at}]: {describe_unheld(time)}; its key is {key}"
            raise ValueError(msg)


def in_parts(events: pa.Table, part_bytes: int) -> list[pa.RecordBatch]:
    """Cut events in parts of about so many bytes."""
    step = max(1, len(events) * part_bytes // max(1, events.nbytes))
    parts: list[pa.RecordBatch] = events.to_batches(max_chunksize=step)
    return parts


def _columns_of(
    events: pa.Table | pa.RecordBatch, keys: object, event_times: object
) -> tuple[Column, Column, Column | None]:
    if keys is not None or event_times is not None:
        msg = "a table has its keys and event times in columns; pass no others"
        raise TypeError(msg)
    names = events.schema.names
    if sorted(names) not in _TABLE_COLUMNS:
        msg = (
            f"the table has columns {names}; pass key, value and, if there are any, event_time"
        )
        raise ValueError(msg)
    times = events.column("event_time") if "event_time" in names else None
    return events.column("value"), events.column("key"), times


def _column(
    name: str,
    given: Any,  # noqa: ANN401 (a sequence or an Arrow array)
    kind: pa.DataType,
    check: Callable[[Any], object],
) -> Column:
    """Convert a column at once if Arrow can, or else one by one, which finds what is wrong where."""
    is_arrow = isinstance(given, pa.Array | pa.ChunkedArray)
    column = given if is_arrow else _inferred(given)
    converted = None if column is None else _converted(column, kind)
    if converted is not None:
        return converted
    checked = []
    for at, one in enumerate(given.to_pylist() if is_arrow else given):
        try:
            checked.append(check(one))
        except TypeError as error:
            msg = f"{name}[{at}]: {error}"
            raise TypeError(msg) from error
        except ValueError as error:
            msg = f"{name}[{at}]: {error}"
            raise ValueError(msg) from error
    return pa.array(checked, kind)


def _inferred(given: Sequence[object]) -> Column | None:
    try:
        column = pa.array(given)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    # Behind a datetime that has a zone, Arrow takes one without a zone for UTC.
    is_mixed = pa.types.is_timestamp(column.type) and any(
        one is not None and getattr(one, "tzinfo", None) is None for one in given
    )
    return None if is_mixed else column


def _converted(column: Column, kind: pa.DataType) -> Column | None:
    """Cast what is of the kind already, but for its width or encoding."""
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        # By the clock of UTC: a local one repeats an hour, and Arrow may not know the zone.
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
        column = pc.floor_temporal(column, unit="millisecond").cast(pa.timestamp("ms", "UTC"))
    elif not _IS_KIND[kind](_decoded(column.type)):
        return None
    try:
        converted = column.cast(kind)
    except pa.ArrowInvalid:  # an unsigned integer that is too large
        return None
    # A dictionary may have a null among its values, which it does not count.
    is_wrong = kind != pa.int64() and converted.null_count
    return None if is_wrong else converted


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
