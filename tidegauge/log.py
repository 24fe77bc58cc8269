"""The log port: what a reader needs of the log that holds a stream's events.

The embedded log behind the service is one implementation, Kafka another. What plans the reading
needs a `Log`, what reads needs a `LogReader`; they may be in different processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegauge.errors import TidegaugeError
from tidegauge.topology import Position, Topology

if TYPE_CHECKING:
    import pyarrow as pa


class EventsLostError(TidegaugeError):
    """Events are not in the log any more, or it ends before them.

    Attributes
    ----------
    segment
        Where they are missing.
    wanted
        Offset of the first.
    found
        Where the log goes on; not above ``wanted`` if it ends there.
    """

    def __init__(self, segment: int, wanted: int, found: int) -> None:
        self.segment = segment
        self.wanted = wanted
        self.found = found
        there = "ends" if found <= wanted else "continues"
        super().__init__(
            f"segment {segment} is needed from offset {wanted}, and the log {there} at {found}"
        )


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a log goes, and how far the marks over it.

    Attributes
    ----------
    topology
        All segments that the log has, and those that a mark may name.
    ends
        Next offset of each segment: what lies before it is decided and can be read.
    revision
        Of the newest mark, as it was before the ends were read; 0 before the first.
    watermark
        Of that mark, ms.
    log_id
        Another one once the log is deleted and created again; None where that makes the stream
        another one, too.
    """

    topology: Topology
    ends: Position
    revision: int
    watermark: int | None
    log_id: str | None = None


@dataclass(frozen=True, slots=True)
class EventRun:
    """Some events of one segment, in order.

    Attributes
    ----------
    segment
        Where they are.
    offsets
        Of the events, int64; a log may have gaps, which are no events.
    end_offset
        Where to read on: one past the last, or further where there is nothing between.
    batch
        Columns ``key``, ``event_time`` (ms, may be null), ``value``, ``append_time`` (ms of wall
        clock) and ``writer``, the last two null where the log does not have them; and what else it
        has.
    """

    segment: int
    offsets: pa.Array
    end_offset: int
    batch: pa.RecordBatch


class Log(Protocol):
    """A log as it is planned from: offsets never change, and a segment only grows."""

    def extent(self, beyond: Extent | None = None, *, wait_ms: int = 0) -> Extent:
        """Return how far the log goes; wait until it goes, or a mark lies, beyond what is known."""

    def starts(self) -> Position:
        """Return the stream cut at which the events begin."""

    def start_of(self, time: int) -> Position:
        """Return where to start so that no event at or above a time, ms, is missed."""


class LogReader(Protocol):
    """A log as its events are read."""

    def read(self, segment: int, offsets: range) -> Iterator[EventRun]:
        """Read the events of a segment within offsets, in order, up to the end of these.

        Raises
        ------
        EventsLostError
            If events from its position on are gone, or the log ends before the offsets do.
        """

    def log_id(self) -> str | None:
        """Return which log is there now; see `Extent`."""
