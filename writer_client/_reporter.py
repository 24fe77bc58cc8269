"""Noting time for a log of one's own."""

from collections.abc import Hashable, Mapping
from datetime import datetime
from functools import partial
from typing import TypedDict, Unpack

from tidegauge.client.blocks import AsyncOpening, Opening
from tidegauge.client.sync import LoopThread, SyncFace, blocking, face_of
from tidegauge.event_time import to_event_time
from tidegauge.topology import Position
from writer_client._errors import WriterClosedError
from writer_client._membership import MemberFace, Membership, Noted
from writer_client._options import ReporterOptions
from writer_client.strategies import ObservedEvent


class MoreOfEvent(TypedDict, total=False):
    """Keyword arguments of `AsyncTimeReporter.observe`."""

    key: str
    value: bytes
    source: Hashable


class AsyncTimeReporter(MemberFace, AsyncOpening):
    """Notes time for events that its owner writes to another log, such as Kafka.

    Parameters
    ----------
    url
        Of the service, or of each of its controllers, with commas between.
    stream
        ``scope/stream``, created with ``log: external``.
    name
        Of this writer: chosen by its owner, and the same after a restart.
    token : str, optional
        Bearer token, if the service wants one.
    first_time : int or datetime, optional
        Nothing that will be written is older (ms or an aware datetime).
    retry_for : timedelta, default 60 s
        How long a request is repeated while the service is away.
    strategy : Strategy, optional
        Notes by itself what `observe` is shown, see `writer_client.strategies`: every ``note_interval``, at
        once where an event says so, and with `close` and `leave`. What the service refuses is
        raised by the next call; while it does not answer, each note gives way to the next.
    note_interval : timedelta, default 200 ms
        How often a strategy is asked.
    beat : {"never", "always"}, default "never", with a strategy "always"
        Whether to `beat` by itself, a third of ``aggregation_timeout_ms`` after it last reported. A
        beat that is refused is raised by the next call. Who is idle by its strategy does not beat.

    Notes
    -----
    After a restart the first report should cover what the former process wrote; the end
    offsets of the log are always safe. For `close` and `leave` see `AsyncWriter`; leaving the
    ``async with`` block closes.

    Examples
    --------
    >>> import asyncio
    >>> async def main() -> None:
    ...     url = "http://127.0.0.1:8470"
    ...     async with AsyncTimeReporter(url, "shop/orders", "api-1") as reporter:
    ...         await reporter.note_time(1_700_000_000_000, {0: 120, 3: 45})
    ...         print(reporter.watermark)
    >>> asyncio.run(main())
    1700000000000
    """

    def __init__(
        self, url: str, stream: str, name: str, **options: Unpack[ReporterOptions]
    ) -> None:
        self._member = Membership(url, stream, name, options, beat="never")
        self._noter = self._member.noter

    async def open(self) -> None:
        """Register. Every other method that needs it does it too."""
        self._noter.refuse_if_over()
        await self._member.open(self._register)

    async def observe(
        self,
        event_time: int | datetime | None,
        position: Mapping[int, int],
        **more: Unpack[MoreOfEvent],
    ) -> None:
        """Show the strategy an event that the log has taken; waits for nothing but registration.

        What the strategy says is noted with the position that was shown until then: everything
        that is not observed yet counts as written later. So call it once the log has acknowledged the
        event, in the order of the acknowledgements.

        Parameters
        ----------
        event_time
            In ms, or an aware datetime (floored to ms); None if the event has none.
        position
            Partition to next offset, behind the event: its own offset plus 1.
        **more
            ``key``, ``value`` and ``source`` of the event, for strategies that look at them; see
            `ObservedEvent`.

        Raises
        ------
        ValueError
            If the reporter has no strategy.
        ReportRefusedError
            If a note before was refused.
        """
        if not self._member.opened:
            await self.open()
        if self._observe(event_time, position, **more):
            self._member.notes_ready.set()

    async def note_time(self, time: int | datetime, position: Mapping[int, int]) -> None:
        """Promise that every event written after a position is at or above a time.

        Parameters
        ----------
        time
            In ms, or an aware datetime (floored to ms).
        position
            Partition to next offset; only those that changed need be named.

        Raises
        ------
        ReportRefusedError
            If the service refuses; `WriterFencedError` if another process took the name.
        ServiceUnreachableError
            If it does not answer; the report may be repeated.
        """
        noted = to_event_time(time)
        await self.open()
        async with self._member.reporting:
            self._noter.refuse_if_over()
            await self._member.calls.note_time(noted, position)
            with self._noter.lock:
                self._noter.notes.accept_beside(noted, position)

    async def beat(self) -> None:
        """Note the last time again, with nothing new written: it still holds.

        Before the first note it reports `registered_time`, and no earlier time can be noted then; if there is
        none, nothing. Raises what `note_time` does.
        """
        await self.open()
        async with self._member.reporting:
            self._noter.refuse_if_over()
            await self._member.calls.beat(
                self._noter.promise(self._member.calls.registered_time)
            )

    async def close(self) -> None:
        """Stop, and stay a member of the stream.

        With a strategy, its last time is noted before, with the final position.
        """
        was_closed, self._noter.is_closed = self._noter.is_closed, True
        try:
            await self._member.stop()
            if self._noter.strategy is not None and self._member.opened and not was_closed:
                time, position = self._last()
                if time is not None:
                    await self._member.calls.note_time(time, position)
        finally:
            await self._member.calls.transport.aclose()

    async def leave(self, *, ended: bool = False) -> None:
        """Leave the stream: this writer will not return, and no reader waits for it.

        Parameters
        ----------
        ended
            What it reports has ended, so that the stream is sealed once all its writers have ended.
        """
        await self.open()
        await self._member.stop()
        # The race: a note is on its way. What this says last must not be below it.
        async with self._member.reporting:
            self._noter.refuse_if_over()
            self._noter.is_closed = True
            try:
                await self._member.calls.leave(*self._last(), ended=ended)
            finally:
                await self._member.calls.transport.aclose()

    async def _register(self) -> None:
        await self._member.describe()
        await self._member.calls.register(self._member.first_time)
        if self._noter.strategy is not None:
            self._noter.promise(self._member.first_time)
            self._member.start_notes(self._note_by_strategy, self._take)
        self._member.start_beats()

    def _observe(
        self,
        event_time: int | datetime | None,
        position: Mapping[int, int],
        **more: Unpack[MoreOfEvent],
    ) -> bool:
        """Show an event to the strategy, from any thread; return whether a time was noted at once."""
        noter = self._noter
        noter.refuse_if_over()
        if noter.strategy is None:
            msg = "this reporter has no strategy; give it one, or call note_time"
            raise ValueError(msg)
        time = None if event_time is None else to_event_time(event_time)
        # A time and the position that it covers are taken under one lock.
        with noter.lock:
            at_once = noter.observe(ObservedEvent(time, **more))
            noter.notes.reach(position)
            return at_once and self._note()

    def _note_by_strategy(self) -> None:
        with self._noter.lock:
            self._note()
        self._member.notes_ready.set()

    def _note(self) -> bool:
        time = self._noter.strategy_time()
        if time is not None:
            self._noter.notes.add(time)
        return time is not None

    async def _take(self) -> Noted:
        with self._noter.lock:
            return self._noter.notes.send(1)

    def _last(self) -> tuple[int | None, Position]:
        """Return the last time, and how far everything is written."""
        with self._noter.lock:
            self._note()
            return self._noter.notes.last_time, dict(self._noter.notes.reached)


@face_of(AsyncTimeReporter)
class TimeReporter(MemberFace, SyncFace[AsyncTimeReporter], Opening):
    """The synchronous face of `AsyncTimeReporter`, usable from several threads.

    Examples
    --------
    >>> with TimeReporter("http://127.0.0.1:8470", "shop/orders", "api-1") as reporter:
    ...     reporter.note_time(1_700_000_000_000, {0: 120, 3: 45})
    ...     print(reporter.watermark)
    1700000000000
    """

    def __init__(
        self, url: str, stream: str, name: str, **options: Unpack[ReporterOptions]
    ) -> None:
        self._thread = LoopThread(
            f"tidegauge-reporter-{name}", closed=partial(WriterClosedError, name)
        )
        self._core = AsyncTimeReporter(url, stream, name, **options)
        self._member = self._core._member  # noqa: SLF001 (the same, in this thread)

    def observe(
        self,
        event_time: int | datetime | None,
        position: Mapping[int, int],
        **more: Unpack[MoreOfEvent],
    ) -> None:
        """Show the strategy an event that the log has taken; see `AsyncTimeReporter.observe`.

        It waits for nothing but registration, so that callbacks of a log's client may call it.
        """
        self._thread.check_open()
        if not self._member.opened:
            self.open()
        if self._core._observe(event_time, position, **more):  # noqa: SLF001 (as above)
            self._thread.call_soon(self._member.notes_ready.set)

    open = blocking(AsyncTimeReporter.open)
    note_time = blocking(AsyncTimeReporter.note_time)
    beat = blocking(AsyncTimeReporter.beat)

    def close(self) -> None:
        """Stop, and stay a member of the stream."""
        self._thread.end(self._core.close)

    def leave(self, *, ended: bool = False) -> None:
        """Leave the stream; see `AsyncTimeReporter.leave`."""
        self._thread.check_open()
        self._thread.end(partial(self._core.leave, ended=ended))
