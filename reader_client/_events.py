"""Events as they come from the service, in Arrow's columns."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa


class Events(NamedTuple):
    """Consecutive events of one segment."""

    segment: int
    first_offset: int
    batch: pa.RecordBatch
    """Columns ``key``, ``event_time`` (ms, may be null), ``value``, ``append_time`` (wall clock of
    the append, ms) and ``writer``; the last two are null where they were not stored."""

    @property
    def end_offset(self) -> int:
        """One past the offset of the last event."""
        return self.first_offset + int(self.batch.num_rows)


def sliced(segment: int, body: bytes, *, first: int, start: int, end: int) -> Iterator[Events]:
    """Cut whole chunks to the offsets that were asked for, without copying."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
        for batch in stream:
            begin, stop = max(start, first), min(end, first + batch.num_rows)
            if begin < stop:
                yield Events(segment, begin, batch.slice(begin - first, stop - begin))
            first += batch.num_rows
