"""The work list of a batch job over a stream: between two of its marks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from tidegauge.errors import TruncatedError
from tidegauge.event_time import END_OF_TIME, to_event_time
from tidegauge.extras import needs_extra
from tidegauge.intervals import CURSOR_CURE, ChangedIntervals, GoneError, Interval, Tiling
from tidegauge.lattice import events_between, join
from tidegauge.topology import Position

if TYPE_CHECKING:
    from reader_client._events import Events
    from tidegauge.marks import Mark
    from tidegauge.names import StreamName
    from tidegauge.wire.streams import MarksAtTime, StreamInfo


class _Client(Protocol):
    """What is asked of a client of a stream."""

    stream: StreamName

    async def describe(self) -> StreamInfo: ...

    async def marks(self, *, after: int = 0, limit: int = 1_000) -> list[Mark]: ...

    async def marks_at_time(self, time: int) -> MarksAtTime: ...

    def read(self, segment: int, start: int, end: int) -> AsyncIterator[Events]: ...


@dataclass(frozen=True, slots=True)
class StreamWorkList:
    """What a batch job over a stream has to run.

    Attributes
    ----------
    revision
        Of the newest mark; None before the first one, and nothing is listed.
    cut
        Read the stream up to this.
    until
        The time up to which it is complete there, ms.
    new
        Intervals that are complete now, and were not at the cursor.
    again
        Intervals that were complete at the cursor, and to which events came; None if nobody
        knows, since the log is external.
    cursor
        A text; pass it as ``since=`` next time.
    """

    revision: int | None = None
    cut: Position | None = None
    until: int | None = None
    new: list[Interval] = field(default_factory=list)
    again: list[Interval] | None = field(default_factory=list)
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Where a call ended, and of which intervals. Marks are thinned, so that it has the cut, too."""

    stream_id: str
    until: int
    cut: Mapping[int, int]
    revision: int
    tiling: Tiling

    @classmethod
    def parse(cls, text: str) -> _Cursor:
        try:
            stream_id, until, cut, revision, length, zone = json.loads(text)
            position = {int(number): int(at) for number, at in cut.items()}
            tiling = Tiling.parse(f"{length}ms", zone)
            return cls(str(stream_id), int(until), position, int(revision), tiling)
        except (AttributeError, TypeError, ValueError):
            msg = f"since={text[:80]!r} is no cursor of a stream; {CURSOR_CURE}"
            raise ValueError(msg) from None

    def to_text(self) -> str:
        of = self.tiling.length, self.tiling.zone_name
        return json.dumps([self.stream_id, self.until, dict(self.cut), self.revision, *of])


async def list_intervals(
    client: _Client,
    *,
    since: str | None,
    by: str,
    zone: str | None,
    start: int | datetime | None,
) -> StreamWorkList:
    """List the intervals of a stream; see `AsyncStreamClient.intervals`."""
    tiling = Tiling.parse(by, zone)
    before = None if since is None else _Cursor.parse(since)
    if before is not None:
        tiling.check_cursor(before.tiling, before.until)
    if before is None and start is None:
        msg = "the first call needs start=: nobody knows the least time of a stream"
        raise ValueError(msg)
    first = None if start is None else tiling.ceil(to_event_time(start))
    stream = await client.describe()
    if before is not None and before.stream_id != stream.stream_id:
        raise GoneError(str(client.stream), "was created again")
    if not stream.revision:
        return StreamWorkList(cursor=since)
    mark = (await client.marks(after=stream.revision - 1, limit=1))[-1]
    listing = _Listing(client, stream, mark, tiling=tiling, first=first)
    again = None if stream.tail is None else await listing.again(before)
    cursor = _Cursor(stream.stream_id, mark.lower, mark.cut, mark.revision, tiling)
    return StreamWorkList(
        mark.revision, mark.cut, mark.lower, await listing.new(before), again, cursor.to_text()
    )


class _Listing:
    """The intervals of a stream up to its newest mark."""

    def __init__(
        self,
        client: _Client,
        stream: StreamInfo,
        mark: Mark,
        *,
        tiling: Tiling,
        first: int | None,
    ) -> None:
        self._client, self._stream, self._mark = client, stream, mark
        self._tiling, self._first = tiling, first

    async def new(self, before: _Cursor | None) -> list[Interval]:
        begin = self._first
        if before is not None:
            begin = self._tiling.floor(before.until)
            begin = begin if self._first is None else max(begin, self._first)
        if begin is None or (before is not None and before.until >= self._mark.lower):
            return []
        end = self._mark.lower if not self._mark.final else await self._end(begin)
        return list(self._tiling.between(str(self._client.stream), begin, end))

    async def again(self, before: _Cursor | None) -> list[Interval]:
        if before is None:
            return []
        until = min(before.until, self._mark.lower)
        changed = ChangedIntervals(self._tiling, str(self._client.stream), until, self._first)
        async for times in self._times(before.cut, below=changed.until):
            changed.add_late(times, before.until)
        return changed.listed()

    async def _end(self, begin: int) -> int:
        """Find where the interval ends that has the greatest event of a sealed stream.

        The last mark does not say it: writers note time, and events may be above it.
        """
        if self._stream.tail is None:
            msg = (
                f"{self._client.stream} is sealed, and where its external log ends in event time "
                "is not known here; run what is left up to its greatest event by hand"
            )
            raise ValueError(msg)
        topology = self._stream.topology.to_topology()
        place = (await self._client.marks_at_time(begin)).start or {}
        place = join(topology, [place, self._stream.first_cut or {}])
        greatest = [max(times) async for times in self._times(place) if times]
        return self._tiling.after(self._tiling.floor(max(greatest))) if greatest else begin

    async def _times(
        self, start: Position, *, below: int = END_OF_TIME
    ) -> AsyncIterator[list[int]]:
        """Read the times below one of the events between a position and the mark's cut."""
        with needs_extra("reading events", extra="reader"):
            import pyarrow.compute as pc  # noqa: PLC0415 (the rest needs no Arrow)
        topology = self._stream.topology.to_topology()
        parts = events_between(topology, start, self._mark.cut)
        try:
            for segment, (begin, end) in parts.items():
                async for events in self._client.read(segment, begin, end):
                    times = events.batch.column("event_time")
                    yield times.filter(pc.less(times, below)).drop_null().to_pylist()
        except TruncatedError as error:
            raise GoneError(str(self._client.stream), f"has dropped events: {error}") from error
