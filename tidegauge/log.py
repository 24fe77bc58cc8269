"""The log port: what writers and readers need of the log that holds a stream's events.

The embedded log behind the service is one implementation (its clients are `writer_client` and
`reader_client`), a log of another make is written against the same two faces.
"""

from collections.abc import AsyncIterator
from typing import Protocol

import pyarrow as pa

from tidegauge.topology import Position, Topology
from tidegauge.wire.events import Appended
from tidegauge.wire.streams import Tail


class EventRun(Protocol):
    """Consecutive events of one segment."""

    @property
    def segment(self) -> int:
        """Where they are."""

    @property
    def first_offset(self) -> int:
        """Offset of the first."""

    @property
    def batch(self) -> pa.RecordBatch:
        """Columns ``key``, ``event_time`` (ms, may be null) and ``value``, and what else the log tells."""


class LogWriter(Protocol):
    """Where one incarnation of a writer appends."""

    async def append(self, segment: int, body: bytes, sequence: int) -> Appended:
        """Append an Arrow IPC stream of events to a segment; durable once it returns.

        Exactly once for each sequence number: 1, 2, 3 … in the segment and incarnation, so that
        an append without an answer is simply repeated.

        Raises
        ------
        SequenceGapError
            If the one before it is missing; nothing is stored then.
        WriterFencedError
            If a newer incarnation took over.
        SegmentSealedError, StreamSealedError
            If the segment or the stream takes no more events.
        """


class LogReader(Protocol):
    """Where events are read; offsets never change, and a segment only grows."""

    async def topology(self) -> Topology:
        """Read the segments there are, and how they continue each other."""

    async def tail(
        self, *, after: Position | None = None, revision: int = 0, wait_ms: int = 0
    ) -> Tail:
        """Read the next offset of each segment; wait until it is beyond a position."""

    def read(self, segment: int, start: int, end: int) -> AsyncIterator[EventRun]:
        """Read the events ``[start, end)`` of a segment in order.

        An end before ``end`` without an error means that there are no more events yet.
        """
