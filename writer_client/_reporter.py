"""Noting time for a log of one's own."""

import asyncio
from collections.abc import Coroutine, Hashable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, TypedDict, Unpack

from tidegauge.client.blocks import AsyncOpening, Opening
from tidegauge.client.outage import RETRY_FOR
from tidegauge.client.sync import LoopThread, SyncFace, blocking
from tidegauge.client.transport import Transport, is_transient
from tidegauge.errors import TidegaugeError
from tidegauge.event_time import to_event_time
from tidegauge.topology import Position
from writer_client._beats import beat_on, check_beat
from writer_client._client import WriterCalls
from writer_client._errors import WriterClosedError
from writer_client._noting import Noting
from writer_client._options import ReporterOptions, note_interval_s
from writer_client._written import Written
from writer_client.strategies import ObservedEvent


class MoreOfEvent(TypedDict, total=False):
    """Keyword arguments of `AsyncTimeReporter.observe`."""

    key: str
    value: bytes
    source: Hashable


class AsyncTimeReporter(AsyncOpening):
    """Notes time for events that its owner writes to another log, such as Kafka.

    Parameters
    ----------
    url
        Of the service.
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
        transport = Transport(
            url, token=options.get("token"), retry_for=options.get("retry_for", RETRY_FOR)
        )
        self._calls = WriterCalls(transport, stream, name)
        first_time = options.get("first_time")
        self._first_time = None if first_time is None else to_event_time(first_time)
        self._one_at_a_time = asyncio.Lock()
        strategy = options.get("strategy")
        self._noting = None if strategy is None else Noting(strategy)
        self._note_interval_s = note_interval_s(options)
        self._written = Written(self._noting)
        beat = check_beat(
            options.get("beat", "never" if strategy is None else "always"), "never", "always"
        )
        self._always_beats = beat == "always"
        self._tasks: list[asyncio.Task[None]] = []
        self._note_at_once = asyncio.Event()
        self._closed = False

    @property
    def incarnation(self) -> int | None:
        """From the registration; None before `open`."""
        return self._calls.incarnation

    @property
    def watermark(self) -> int | None:
        """The newest watermark that this writer was told, ms."""
        return self._calls.watermark

    @property
    def told_time(self) -> int | None:
        """What the registration told, ms: nothing below it is safe to write; see `AsyncWriter`."""
        return self._calls.told_time

    @property
    def late_events(self) -> int:
        """How many observed events were below a time noted before them; 0 without a strategy."""
        return self._noting.late_events if self._noting else 0

    @property
    def future_events(self) -> int:
        """How many events the strategy left out: their times were too far in the future."""
        return self._noting.future_events if self._noting else 0

    async def open(self) -> None:
        """Register. Every other method that needs it does it too."""
        async with self._one_at_a_time:
            await self._open()

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
        if self._calls.incarnation is None:
            await self.open()
        if self._observe(event_time, position, **more):
            self._note_at_once.set()

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
        async with self._one_at_a_time:
            await self._open()
            await self._calls.note_time(noted, position)
            self._written.accept(noted, position)

    async def beat(self) -> None:
        """Say that the last time still holds: note it again, with nothing new written.

        Before the first note it says `told_time`, and no earlier time can be noted then; if there is
        none, nothing. Raises what `note_time` does.
        """
        async with self._one_at_a_time:
            await self._open()
            await self._calls.beat(self._promise())

    async def close(self) -> None:
        """Stop, and stay a member of the stream.

        With a strategy, its last time is noted before, with the final position.
        """
        was_closed, self._closed = self._closed, True
        try:
            await self._end_tasks()
            if (
                self._noting is not None
                and self._calls.incarnation is not None
                and not was_closed
            ):
                await self._note_last()
        finally:
            await self._calls.transport.aclose()

    async def leave(self) -> None:
        """Leave the stream: this writer will not return, and nobody waits for it."""
        async with self._one_at_a_time:
            await self._open()
            self._written.due()
            self._closed = True
            try:
                await self._end_tasks()
                await self._calls.leave(*self._written.last)
            finally:
                await self._calls.transport.aclose()

    async def _open(self) -> None:
        self._refuse_if_over()
        if self._calls.incarnation is not None:
            return
        info = await self._calls.describe()
        if self._noting is not None:
            # Before other threads see an incarnation, and observe.
            self._noting.max_future_skew_ms = info.config.max_future_skew_ms
        await self._calls.register(self._first_time)
        if self._noting is not None:
            self._written.promise(self._first_time)
            self._calls.transport.gives_up = False
            self._start(self._note_by_strategy())
        if self._always_beats:
            self._start(
                beat_on(
                    self._calls,
                    wanted=lambda: not self._written.is_idle,
                    otherwise=self._promise,
                )
            )

    def _observe(
        self,
        event_time: int | datetime | None,
        position: Mapping[int, int],
        **more: Unpack[MoreOfEvent],
    ) -> bool:
        """Take in an event, from any thread; tell whether to note at once."""
        self._refuse_if_over()
        if self._noting is None:
            msg = "this reporter has no strategy; give it one, or call note_time"
            raise ValueError(msg)
        time = None if event_time is None else to_event_time(event_time)
        return self._written.observe(self._noting, ObservedEvent(time, **more), position)

    def _refuse_if_over(self) -> None:
        if self._closed:
            raise WriterClosedError(self._calls.name)
        for task in self._tasks:
            if task.done():
                task.result()

    def _promise(self) -> int | None:
        return self._written.promise(self._calls.told_time)

    async def _note_by_strategy(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._note_interval_s):
                    await self._note_at_once.wait()
            self._note_at_once.clear()
            async with self._one_at_a_time:
                if note := self._written.due():
                    await self._note(*note)

    async def _note(self, time: int, position: Position) -> None:
        try:
            await self._calls.note_time(time, position)
        except TidegaugeError as error:
            if not is_transient(error):  # the others are told by the transport
                raise
        else:
            self._written.accept(time, {})

    async def _note_last(self) -> None:
        self._written.due()
        time, position = self._written.last
        if time is not None:
            await self._calls.note_time(time, position)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class TimeReporter(SyncFace[AsyncTimeReporter], Opening):
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

    @property
    def incarnation(self) -> int | None:
        """From the registration; None before `open`."""
        return self._core.incarnation

    @property
    def watermark(self) -> int | None:
        """The newest watermark that this writer was told, ms."""
        return self._core.watermark

    @property
    def told_time(self) -> int | None:
        """What the registration told, ms: nothing below it is safe to write; see `AsyncWriter`."""
        return self._core.told_time

    @property
    def late_events(self) -> int:
        """How many observed events were below a time noted before them; 0 without a strategy."""
        return self._core.late_events

    @property
    def future_events(self) -> int:
        """How many events the strategy left out: their times were too far in the future."""
        return self._core.future_events

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
        if self._core.incarnation is None:
            self.open()
        if self._core._observe(event_time, position, **more):  # noqa: SLF001 (the same, in this thread)
            self._thread.call_soon(self._core._note_at_once.set)  # noqa: SLF001 (as above)

    open = blocking(AsyncTimeReporter.open)
    note_time = blocking(AsyncTimeReporter.note_time)
    beat = blocking(AsyncTimeReporter.beat)

    def close(self) -> None:
        """Stop, and stay a member of the stream."""
        self._thread.end(self._core.close)

    def leave(self) -> None:
        """Leave the stream; see `AsyncTimeReporter.leave`."""
        self._thread.check_open()
        self._thread.end(self._core.leave)
