"""What all writers have in common: registration, reports, beats, and the tasks that make them."""

import asyncio
import time as clock
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias

from tidegauge.client.outage import RETRY_FOR
from tidegauge.client.transport import Transport, is_transient
from tidegauge.errors import TidegaugeError
from tidegauge.event_time import to_event_time
from tidegauge.topology import Position
from tidegauge.wire.streams import StreamInfo
from writer_client._calls import WriterCalls
from writer_client._clocked import ClockedStrategy
from writer_client._noter import Noter
from writer_client._options import CommonOptions, beats_always, note_interval_s, strategy_of

_PAUSE_S = 0.02
"""Between two reports, each of which costs milliseconds: notes that come faster go together."""

# Called by its task: a coroutine whose task ends before it begins would never be awaited.
Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Noted: TypeAlias = list[tuple[int, Position]]


class Membership:
    """One incarnation of a writer, on one event loop. Nothing is sent before `open`.

    Attributes
    ----------
    reporting
        Held by whoever takes a note and reports it: two may not overtake each other.
    notes_ready
        Set when there may be notes to send.
    opened
        Whether the writer is registered.
    fail
        Called when work in the background has failed.
    """

    def __init__(
        self, url: str, stream: str, name: str, options: CommonOptions, *, beat: str
    ) -> None:
        first_time = options.get("first_time")
        self.first_time = None if first_time is None else to_event_time(first_time)
        strategy = strategy_of(options)
        self._note_interval_s = note_interval_s(options)
        default = beat if strategy is None else "always"
        self._always_beats = beats_always(options, seldom=beat, default=default)
        self.retry_for = options.get("retry_for", RETRY_FOR)
        transport = Transport(url, token=options.get("token"), retry_for=self.retry_for)
        self.calls = WriterCalls(transport, stream, name)
        self.strategy = None if strategy is None else ClockedStrategy(strategy)
        self.noter = Noter(name, self.calls.hints, self.strategy)
        self.fail: Callable[[Exception], None] = self.noter.fail
        self.reporting = asyncio.Lock()
        self.notes_ready = asyncio.Event()
        self.opened = False
        self._opening = asyncio.Lock()
        self._progress = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, register: Callable[[], Awaitable[None]]) -> None:
        """Register, once: those that come meanwhile wait for it."""
        async with self._opening:
            if not self.opened:
                self.noter.refuse_if_over()
                await register()
                self.opened = True

    async def describe(self) -> StreamInfo:
        """Describe the stream that is to be written to, and learn its settings."""
        info = await self.calls.describe()
        if self.strategy is not None:
            self.strategy.max_future_skew_ms = info.config.max_future_skew_ms
        return info

    def start_beats(self, *, waits: Callable[[], bool] | None = None) -> None:
        """Beat while something waits to be accepted; or always, if that was asked for."""
        if self._always_beats or waits is not None:
            self.start(lambda: self._keep_beating(waits or (lambda: False)))

    def start_notes(
        self,
        note: Callable[[], object],
        take: Callable[[], Awaitable[Noted]],
        report: Callable[[Noted], Awaitable[None]] | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """Let a strategy note again and again, and report notes that are ready.

        Parameters
        ----------
        note
            Notes what the strategy says.
        take
            Puts notes on their way.
        report
            Sends them, if not as usual.
        waits
            Whether notes wait while the service is away; otherwise that stops the writer.
        """
        self.calls.transport.gives_up = not waits
        report = report or self.calls.note_times
        self.start(lambda: self._keep_reporting(take, report, waits=waits))
        if self.strategy is not None:
            self.start(lambda: self._keep_noting(note))
        self.notes_ready.set()

    def start(self, work: Work, fail: Callable[[Exception], None] | None = None) -> None:
        """Start work in the background; if it fails, the writer stops, and its next call raises that."""
        guarded = self._guarded(work, fail or self.fail)
        self._tasks.append(asyncio.get_running_loop().create_task(guarded))

    def go_on(self) -> None:
        """Let whoever waits for something check again."""
        self._progress.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something holds, checked whenever anything was stored or failed."""
        while not reached():
            self._progress.clear()
            await self._progress.wait()

    async def stop(self) -> None:
        """End all tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep_reporting(
        self,
        take: Callable[[], Awaitable[Noted]],
        report: Callable[[Noted], Awaitable[None]],
        *,
        waits: bool,
    ) -> None:
        while True:
            async with self.reporting:
                notes = await take()
                try:
                    if notes:
                        await report(notes)
                except TidegaugeError as error:
                    if not (waits and is_transient(error)):  # the transport warns of the others
                        raise
                    self.noter.put_back()
                else:
                    self.noter.accept()
            if not notes:
                await self.notes_ready.wait()
                self.notes_ready.clear()
                continue
            self.go_on()
            if waits:
                await asyncio.sleep(_PAUSE_S)

    async def _keep_noting(self, note: Callable[[], object]) -> None:
        while True:
            note()
            await asyncio.sleep(self._note_interval_s)

    async def _keep_beating(self, waits: Callable[[], bool]) -> None:
        """Repeat the last time whenever ``beat_ms`` have passed without a report, if it is wanted then.

        While the service does not answer, each beat gives way to the next.
        """
        calls, noter, always = self.calls, self.noter, self._always_beats
        if calls.beat_ms is None:
            return
        period_s = calls.beat_ms / 1_000
        due_s = calls.reported_s + period_s
        while True:
            await asyncio.sleep(due_s - clock.monotonic())
            due_s = calls.reported_s + period_s
            if due_s > clock.monotonic():
                continue
            due_s = clock.monotonic() + period_s
            is_wanted = waits() or (always and not noter.is_idle)
            if is_wanted and noter.failure is None:
                # Only who asked for it is bound by a time that it has not noted.
                await self._beat(
                    noter.promise(calls.registered_time) if always else None, period_s
                )

    async def _beat(self, otherwise: int | None, period_s: float) -> None:
        try:
            async with asyncio.timeout(period_s):
                await self.calls.beat(otherwise)
        except TimeoutError:
            self.calls.transport.begin_outage("a beat was not answered")
        except TidegaugeError as error:
            if not is_transient(error):  # the transport warns of the others
                raise

    async def _guarded(self, work: Work, fail: Callable[[Exception], None]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 (raised again by every later call)
            fail(error)
        finally:
            self.go_on()


class MemberFace:
    """What each writer shows of itself."""

    _member: Membership

    @property
    def name(self) -> str:
        """The writer's name."""
        return self._member.calls.name

    @property
    def incarnation(self) -> int | None:
        """From the registration; None before `open`."""
        return self._member.calls.incarnation

    @property
    def watermark(self) -> int | None:
        """The newest watermark that the service returned to this writer, ms."""
        return self._member.calls.watermark

    @property
    def registered_time(self) -> int | None:
        """What the registration returned, ms: nothing below it is safe to write.

        Where the writer went on from: its own last time if it was still waited for, otherwise what
        the others had reached. None before `open`, if there was no mark yet, and if it stayed out.
        """
        return self._member.calls.registered_time

    @property
    def late_events(self) -> int:
        """How many events were below a time noted before them, as far as this writer was shown events."""
        return self._member.noter.late_events

    @property
    def future_events(self) -> int:
        """How many events the strategy left out: their times were too far in the future."""
        return self._member.strategy.future_events if self._member.strategy else 0
