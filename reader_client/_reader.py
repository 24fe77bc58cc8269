"""Readers that share the segments of one or more streams."""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import NamedTuple, Unpack

from reader_client._events import Events
from reader_client._group import AsyncReaderGroup
from reader_client._member import Member
from reader_client._reading import Reading
from reader_client._stream import ReaderOptions
from tidegauge.client.blocks import AsyncOpening, Opening
from tidegauge.client.sync import LoopThread, SyncFace, blocking, face_of
from tidegauge.errors import ReaderFencedError
from tidegauge.groups import SegmentRef
from tidegauge.topology import Position
from tidegauge.windows import TimeWindow
from tidegauge.wire.groups import by_segment


class Event(NamedTuple):
    """One event that a reader read.

    Attributes
    ----------
    stream, segment, offset
        Where it lies.
    key, event_time, value
        What it is; ``event_time`` in ms, or None.
    append_time
        Wall clock of its append, ms; None if it was appended before that was stored.
    writer
        Who appended it; None if nobody was named, or that was not stored then.
    """

    stream: str
    segment: int
    offset: int
    key: str
    event_time: int | None
    value: bytes
    append_time: int | None = None
    writer: str | None = None


class AsyncReader(AsyncOpening):
    """One reader of a group.

    Segments are shared out among the readers; one without segments is normal. What the latest
    `read_next` returned counts as read only with the next one, or a `checkpoint`: events are
    delivered at least once.

    Parameters
    ----------
    url
        Of the service, or of each of its controllers, with commas between.
    group
        ``scope/group``, which exists.
    name
        Of this reader: stable over restarts. Joining under a name that is there takes it over.
    token : str, optional
        Bearer token, if the service wants one.
    retry_for : timedelta, default 60 s
        How long a request is repeated while the service is away.
    """

    def __init__(
        self, url: str, group: str, name: str, **options: Unpack[ReaderOptions]
    ) -> None:
        self.group = AsyncReaderGroup(url, group, **options)
        self._member = Member(self.group, name)
        self._reading = Reading(self._member)
        self.name = self._member.name

    @property
    def epoch(self) -> int | None:
        """Return the epoch of this process; None before it joined."""
        return self._member.epoch

    async def open(self) -> None:
        """Join the group; `read_next` does so, too."""
        await self._member.join()

    async def read_next(self, *, wait_ms: int = 1_000, limit: int = 1_000) -> list[Event]:
        """Read the next events of one segment, in order; return none if none arrive in time.

        While the group stays as it is, this costs one round trip: what was returned before is
        confirmed while events, or news of them, are fetched.

        Parameters
        ----------
        wait_ms
            How long to wait at the tail.
        limit
            At most so many events.

        Raises
        ------
        ReaderFencedError
            If another process took the name, or this one was taken offline: it learns that when
            it confirms, or by its heartbeat.
        TruncatedError
            If events that were to be read next were dropped. The reader goes on at the first
            there are: call it again.
        """
        await self.open()
        found = await self._reading.next(wait_ms=wait_ms, limit=limit)
        if found is None:
            return []
        ref, page = found
        return [event for events in page for event in _rows(ref, events)]

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Read event after event; waits at the tail, and ends with sealed streams.

        Only events that were handed out count as read, so that whoever stops in between misses
        none. What another reader took over meanwhile is left to it.
        """
        share = self._reading.share
        while True:
            events = await self.read_next()
            share.returned.clear()
            for event in events:
                ref = SegmentRef(event.stream, event.segment)
                if ref not in share.owned:
                    break
                share.returned[ref] = event.offset + 1
                yield event
            if not events and await self._member.is_all_read():
                return

    async def confirm(self, positions: Mapping[str, Position]) -> None:
        """Confirm that everything before the offsets was read, and own exactly these segments.

        For logs that the application reads by itself, and that assign segments to readers: give
        all that are assigned to this one, also after each rebalance. What is left out goes back
        to the group. Not to be mixed with `read_next`, which shares segments out by itself.

        Parameters
        ----------
        positions
            By ``scope/stream``: for each segment the next offset to read.

        Raises
        ------
        InvalidTransitionError
            If another reader owns one of them until it confirms without it, or an offset is
            below what was confirmed.
        ReaderFencedError
            If another process took the name, or this one was taken offline.

        Examples
        --------
        >>> reader = AsyncReader("http://127.0.0.1:8470", "shop/billing", "pod-7")
        >>> await reader.confirm({"shop/orders": {0: 1_200, 3: 47}})  # doctest: +SKIP
        """
        await self.open()
        self._member.raise_failure()
        await self._member.own(by_segment(positions))

    async def checkpoint(self, name: str) -> dict[str, Position]:
        """Confirm what was read, and store the position of the whole group."""
        await self.open()
        await self._reading.step()
        return await self.group.checkpoint(name)

    async def get_time_window(self, stream: str | None = None) -> TimeWindow:
        """Return the time window of the group in a stream, or in all of its streams."""
        return await self.group.get_time_window(stream)

    async def close(self) -> None:
        """Go offline at the confirmed position, so that others continue from there.

        Raises
        ------
        ReaderFencedError
            If another process took the name, or this one was taken offline; it is closed then.
        """
        try:
            if self._member.heartbeat is not None:
                self._member.raise_failure()
                await self._reading.step()
                await self.group.reader_offline(self.name, epoch=self._member.epoch or 0)
        finally:
            await self._member.disconnect()

    async def __aexit__(self, *raised: object) -> None:
        _, error, _ = raised
        if isinstance(error, ReaderFencedError):
            await self._member.disconnect()  # there is nothing left to give back
            return
        if error is not None:
            self._reading.share.returned.clear()
        await self.close()


def _rows(ref: SegmentRef, events: Events) -> Iterator[Event]:
    columns = (column.to_pylist() for column in events.batch.columns)
    for place, values in enumerate(zip(*columns, strict=True)):
        yield Event(ref.stream, ref.segment, events.first_offset + place, *values)


@face_of(AsyncReader)
class Reader(SyncFace[AsyncReader], Opening):
    """The synchronous face of `AsyncReader`.

    Examples
    --------
    >>> with Reader("http://127.0.0.1:8470", "demo/billing", "worker-1") as reader:
    ...     for event in reader:
    ...         print(event.key, event.event_time)  # doctest: +SKIP
    """

    def __init__(
        self, url: str, group: str, name: str, **options: Unpack[ReaderOptions]
    ) -> None:
        self._thread = LoopThread(f"tidegauge-reader-{name}")
        self._core = AsyncReader(url, group, name, **options)

    @property
    def epoch(self) -> int | None:
        """Return the epoch of this process; None before it joined."""
        return self._core.epoch

    open = blocking(AsyncReader.open)
    read_next = blocking(AsyncReader.read_next)
    confirm = blocking(AsyncReader.confirm)
    checkpoint = blocking(AsyncReader.checkpoint)
    get_time_window = blocking(AsyncReader.get_time_window)

    def __iter__(self) -> Iterator[Event]:
        """Read event after event; see `AsyncReader`."""
        events = aiter(self._core)
        while True:
            try:
                yield self._thread.run(_next(events))
            except StopAsyncIteration:
                return

    def close(self) -> None:
        """Go offline at the confirmed position."""
        self._thread.end(self._core.close)

    def __exit__(self, *raised: object) -> None:
        self._thread.end(lambda: self._core.__aexit__(*raised))


async def _next(events: AsyncIterator[Event]) -> Event:
    return await anext(events)
