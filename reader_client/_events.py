"""Events as they come from the service, in Arrow's columns."""

from __future__ import annotations

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

    def slice(self, start: int, end: int) -> Events:
        """Cut them to offsets, without copying."""
        begin, stop = max(start, self.first_offset), min(end, self.end_offset)
        batch = self.batch.slice(begin - self.first_offset, stop - begin)
        return Events(self.segment, begin, batch)


def decoded(segment: int, body: bytes, *, first: int, start: int) -> Iterator[Events]:
    """Decode whole chunks, without what lies before an offset."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
        for batch in stream:
            events = Events(segment, first, batch)
            first = events.end_offset
            if start < first:
                yield events.slice(start, first)
