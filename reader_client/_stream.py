"""Reading one stream: its topology, tail, marks, events and writers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypedDict, Unpack

from tidegauge.client.blocks import Closing
from tidegauge.client.outage import RETRY_FOR
from tidegauge.client.stream_calls import StreamCalls
from tidegauge.client.sync import LoopThread, SyncFace, blocking, face_of
from tidegauge.client.transport import Transport
from tidegauge.event_time import to_event_time
from tidegauge.extras import needs_extra
from tidegauge.marks import Mark
from tidegauge.names import StreamName, check_name
from tidegauge.positions import format_position
from tidegauge.states import WriterState
from tidegauge.topology import Position, Topology
from tidegauge.wire.events import FIRST_OFFSET_HEADER
from tidegauge.wire.streams import HoldInfo, HoldList, MarkList, Tail
from tidegauge.wire.writers import WriterAnswer, WriterDescription, WriterInfo, WriterList

if TYPE_CHECKING:
    from reader_client._events import Events
    from reader_client._intervals import StreamWorkList

_PAGE_EVENTS = 131_072
_CHUNKS_AHEAD = 64  # of at most 4 MiB each


class ReaderOptions(TypedDict, total=False):
    """Keyword arguments of what belongs to a reader group."""

    token: str | None
    retry_for: timedelta


class StreamOptions(ReaderOptions, total=False):
    """Keyword arguments of `AsyncStreamClient` and `StreamClient`."""

    stream_id: str | None
    first_contact: timedelta | None


class AsyncStreamClient(StreamCalls):
    """Reads and manages a stream, without joining a reader group.

    Parameters
    ----------
    url
        Of the service, or of each of its controllers, with commas between.
    stream
        ``scope/stream``.
    token
        Bearer token, if the service wants one.
    stream_id
        Insist on this stream; otherwise on the one of the first answer.
    retry_for
        How long a request is repeated while the service is unavailable.
    first_contact
        The same while nothing has answered yet; ``retry_for`` unless it is given.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        token: str | None = None,
        stream_id: str | None = None,
        retry_for: timedelta = RETRY_FOR,
        first_contact: timedelta | None = None,
    ) -> None:
        transport = Transport(
            url, token=token, retry_for=retry_for, first_contact=first_contact
        )
        super().__init__(transport, StreamName.parse(stream), stream_id=stream_id)
        self._ahead: dict[int, Events] = {}
        """What came of a segment beyond what was asked for, since chunks come whole."""

    async def topology(self) -> Topology:
        """Read the topology."""
        return (await self.describe()).topology.to_topology()

    async def tail(
        self, *, after: Position | None = None, revision: int = 0, wait_ms: int = 0
    ) -> Tail:
        """Return the tail; wait until it is beyond a position or a revision."""
        return await self._get(
            "/tail",
            Tail,
            after=None if after is None else format_position(after),
            revision=revision,
            wait_ms=wait_ms,
        )

    async def marks(
        self, *, after: int = 0, limit: int = 1_000, wait_ms: int = 0
    ) -> list[Mark]:
        """Read a page of marks after a revision, oldest first; wait for the next if there is none.

        Read on after the revision of the last one, until a page is empty: where streams have many
        segments, a page has fewer marks than ``limit`` though more follow.
        """
        found = await self._get("/marks", MarkList, after=after, limit=limit, wait_ms=wait_ms)
        return [one.to_mark() for one in found.marks]

    async def holds(
        self, *, since: int | datetime | None = None, until: int | datetime | None = None
    ) -> list[HoldInfo]:
        """List which writers held the watermark, and which still hold it, the newest first.

        A hold counts once it lasts for 10 s, or four times the mean distance of the marks.

        Parameters
        ----------
        since, until
            Only spans that overlap this one of wall clock, ms or datetimes with a zone.
        """
        span = {
            name: None if one is None else to_event_time(one)
            for name, one in (("since", since), ("until", until))
        }
        found: list[HoldInfo] = []
        cursor, ends = None, False
        while not ends:
            page = await self._get("/holds", HoldList, limit=1_000, cursor=cursor, **span)
            found += page.holds
            cursor, ends = page.cursor, page.cursor is None
        return found

    async def completed_at(self, time: int | datetime) -> int | None:
        """Return at which wall clock the watermark reached a time, ms; None while it has not.

        What an expired writer still brings from before that time is late.
        """
        return (await self.marks_at_time(to_event_time(time))).completed_ms

    async def writers(
        self, *, state: WriterState | None = None, prefix: str = "", positions: bool = True
    ) -> list[WriterInfo]:
        """List all writers in order of name.

        Parameters
        ----------
        state
            Only those in this state.
        prefix
            Only those whose names begin so.
        positions
            Whether positions are listed, which are long where there are many segments; None otherwise.
        """
        found = self._writers(state=state, prefix=prefix, positions=positions)
        return [one async for one in found]

    async def slowest_writers(
        self, limit: int = 10, *, state: WriterState | None = None, prefix: str = ""
    ) -> list[WriterInfo]:
        """List the live writers with the lowest times, those without a time first, without positions.

        Parameters
        ----------
        limit
            At most so many, up to 1 000.
        state
            Only those in this state, live or not.
        prefix
            Only those whose names begin so.
        """
        page = await self._get(
            "/writers",
            WriterList,
            order="slowest",
            positions=False,
            state=state,
            prefix=prefix,
            limit=limit,
        )
        return page.writers

    async def writer(self, name: str) -> WriterDescription:
        """Describe a writer: its time and position, and what its clocks show.

        Raises
        ------
        UnknownWriterError
            If the stream has no such writer.
        """
        return await self._get(f"/writers/{check_name(name)}", WriterDescription)

    async def expire(self, writer: str) -> WriterAnswer:
        """Drop a writer that holds the watermark; it returns with a time above the watermark.

        Raises
        ------
        UnknownWriterError
            If the stream has no such writer.
        ForbiddenError
            If the token may not operate.
        """
        path = f"/writers/{check_name(writer)}/expire"
        return await self._ask("POST", path, WriterAnswer, retry=False)

    async def read(self, segment: int, start: int, end: int) -> AsyncIterator[Events]:
        """Read the events of a segment in order, page by page.

        Parameters
        ----------
        segment
            Which one.
        start, end
            Offsets; ``end`` is excluded.

        Raises
        ------
        TruncatedError
            If events from ``start`` on were dropped; it names the first offset there is.
        """
        while start < end:
            page = await self.fetch(segment, start, end)
            if not page:
                return
            for events in page:
                yield events
            start = page[-1].end_offset

    async def fetch(
        self, segment: int, start: int, end: int, *, wait_ms: int = 0
    ) -> list[Events]:
        """Read one page of events: at least one event, if there is one."""
        ahead = self._ahead.pop(segment, None)
        if ahead is not None and ahead.first_offset == start < end:
            return [self._up_to(end, ahead)]
        with needs_extra("reading events", extra="reader"):
            from reader_client._events import decoded  # noqa: PLC0415 (the rest needs no Arrow)
        response = await self._transport.send(
            "GET",
            f"/v1/streams/{self.stream}/segments/{segment}/events",
            retry=True,
            params={
                "start": start,
                "end": min(end, start + _PAGE_EVENTS),
                "wait_ms": wait_ms,
                "stream_id": self.stream_id,
            },
        )
        first = int(response.headers[FIRST_OFFSET_HEADER])
        page = decoded(segment, response.content, first=first, start=start)
        return [self._up_to(end, events) for events in page]

    def _up_to(self, end: int, events: Events) -> Events:
        """Keep what lies beyond the end for whoever reads on, of a bounded number of segments."""
        if events.end_offset > end:
            self._ahead[events.segment] = events.slice(end, events.end_offset)
            if len(self._ahead) > _CHUNKS_AHEAD:
                del self._ahead[next(iter(self._ahead))]
        return events.slice(events.first_offset, end)

    async def intervals(
        self,
        *,
        since: str | None = None,
        by: str = "1 hour",
        zone: str | None = None,
        start: int | datetime | None = None,
    ) -> StreamWorkList:
        """List which intervals of the stream are complete now, and to which late events came since.

        Everything between the two cuts is read for the latter.

        Parameters
        ----------
        since
            ``cursor`` of the call before, which had the same ``by`` and ``zone``; None at the first
            one, which needs ``start``.
        by
            How long intervals are: ``1 hour``, ``15m``, ``7 days``. They count from 1970 on.
        zone
            A time zone such as ``Europe/Paris``: intervals lie within its local days.
        start
            No interval that begins before it is listed; in ms, or an aware datetime.

        Raises
        ------
        GoneError
            If events behind the cursor were dropped, or the stream was made again.
        TooManyIntervalsError
            If there are more than 100 000.
        ValueError
            If an argument is not as described above, the cursor is of other intervals, or an
            external log is sealed, whose greatest time the service does not know.
        """
        from reader_client._intervals import list_intervals  # noqa: PLC0415 (few need it)

        return await list_intervals(self, since=since, by=by, zone=zone, start=start)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


@face_of(AsyncStreamClient)
class StreamClient(SyncFace[AsyncStreamClient], Closing):
    """The synchronous face of `AsyncStreamClient`, with a thread of its own.

    Examples
    --------
    >>> with StreamClient("http://127.0.0.1:8470", "shop/orders") as client:
    ...     client.create(log="external", segments=4, min_writers=2).config.segments
    ...     client.wait_until(datetime(2024, 1, 1, 13, tzinfo=UTC), timedelta(minutes=10))
    4
    1704114000000
    """

    def __init__(self, url: str, stream: str, **options: Unpack[StreamOptions]) -> None:
        self._thread = LoopThread(f"tidegauge-stream-{stream}")
        self._core = AsyncStreamClient(url, stream, **options)

    @property
    def stream_id(self) -> str | None:
        """Return the id of the stream that this client insists on."""
        return self._core.stream_id

    create = blocking(AsyncStreamClient.create)
    configure = blocking(AsyncStreamClient.configure)
    delete = blocking(AsyncStreamClient.delete)
    scale = blocking(AsyncStreamClient.scale)
    split = blocking(AsyncStreamClient.split)
    merge = blocking(AsyncStreamClient.merge)
    truncate = blocking(AsyncStreamClient.truncate)
    seal = blocking(AsyncStreamClient.seal)
    describe = blocking(AsyncStreamClient.describe)
    topology = blocking(AsyncStreamClient.topology)
    tail = blocking(AsyncStreamClient.tail)
    marks = blocking(AsyncStreamClient.marks)
    marks_at_time = blocking(AsyncStreamClient.marks_at_time)
    holds = blocking(AsyncStreamClient.holds)
    completed_at = blocking(AsyncStreamClient.completed_at)
    marks_at_position = blocking(AsyncStreamClient.marks_at_position)
    explain = blocking(AsyncStreamClient.explain)
    wait_until = blocking(AsyncStreamClient.wait_until)
    writers = blocking(AsyncStreamClient.writers)
    slowest_writers = blocking(AsyncStreamClient.slowest_writers)
    writer = blocking(AsyncStreamClient.writer)
    expire = blocking(AsyncStreamClient.expire)
    intervals = blocking(AsyncStreamClient.intervals)

    def read(self, segment: int, start: int, end: int) -> Iterator[Events]:
        """Read the events of a segment in order; the next page is fetched meanwhile.

        See `AsyncStreamClient.read`.
        """
        fetch = self._core.fetch
        page = self._thread.run(fetch(segment, start, end)) if start < end else []
        while page:
            at = page[-1].end_offset
            following = self._thread.submit(fetch(segment, at, end)) if at < end else None
            yield from page
            page = following.result() if following is not None else []

    def close(self) -> None:
        """Close the connections."""
        self._thread.end(self._core.aclose)
