"""What both faces of a writer share: its life from registration to the end."""

import asyncio
from datetime import timedelta
from typing import Unpack

from tidegauge.client.outage import RETRY_FOR
from tidegauge.client.transport import Transport
from tidegauge.errors import LogIsExternalError
from tidegauge.event_time import to_event_time
from writer_client._beats import check_beat
from writer_client._client import WriterCalls
from writer_client._errors import WriterClosedError
from writer_client._noting import Noting, wall_ms
from writer_client._options import WriterOptions, note_interval_s
from writer_client._outbox import Outbox
from writer_client._sending import Sending
from writer_client.strategies import Strategy, TimeLag

_BATCH_BYTES = 4 * 1_048_576  # one chunk of the log; a request costs as much as 1 MiB of events
_BUFFER_BYTES = 16 * 1_048_576
_LINGER = timedelta(milliseconds=5)


class WriterCore:
    """One incarnation of a writer, on one event loop; nothing is sent before `open`."""

    def __init__(
        self, url: str, stream: str, name: str, **options: Unpack[WriterOptions]
    ) -> None:
        first_time = options.get("first_time")
        self._first_time = None if first_time is None else to_event_time(first_time)
        strategy = _strategy(options)
        self.noting = None if strategy is None else Noting(strategy)
        self._note_interval_s = note_interval_s(options)
        default = "unacknowledged" if strategy is None else "always"
        beat = check_beat(options.get("beat", default), "unacknowledged", "always")
        self._always_beats = beat == "always"
        transport = Transport(
            url, token=options.get("token"), retry_for=options.get("retry_for", RETRY_FOR)
        )
        self.calls = WriterCalls(transport, stream, name)
        self.outbox = Outbox(
            name,
            batch_bytes=options.get("batch_bytes", _BATCH_BYTES),
            limit_bytes=options.get("buffer_bytes", _BUFFER_BYTES),
            clock=wall_ms if options.get("automatically_note_time") else None,
            noting=self.noting,
            last_time=self._first_time,
        )
        linger = options.get("linger", _LINGER)
        self.sending = Sending(self.calls, self.outbox, linger.total_seconds())
        self.opened = False
        self._opening = asyncio.Lock()
        self._former_position: dict[int, int] = {}
        self._closed = False

    @property
    def position(self) -> dict[int, int]:
        """How far the events of this writer are stored, former incarnations included."""
        return self._former_position | self.outbox.offsets

    async def open(self) -> None:
        """Register, once: threads that write their first events together wait for one."""
        if self.opened:
            self.refuse_if_closed()
            return
        async with self._opening:
            self.refuse_if_closed()
            if not self.opened:
                await self._register()

    async def flush(self) -> None:
        """Wait until everything written and noted so far is stored."""
        await self.open()
        self.refuse_if_closed()
        self.outbox.note_by_strategy()
        await self._settle()

    async def close(self) -> None:
        """Flush, and note the last time again with the final position."""
        if self._closed:
            return
        try:
            self._end()
            if not self.opened and self.outbox.unaccepted:
                await self._register()
            if self.opened:
                await self._settle()
                if self.outbox.last_time is not None:
                    await self.calls.note_time(self.outbox.last_time, self.outbox.offsets)
        finally:
            await self._stop()

    async def leave(self) -> None:
        """Flush, and leave the stream."""
        await self.open()
        self.refuse_if_closed()
        try:
            self._end()
            await self._settle()
            await self.calls.leave(self.outbox.last_time, self.outbox.offsets)
        finally:
            await self._stop()

    def refuse_if_closed(self) -> None:
        """Raise what ended the writer, if it is closed."""
        if self._closed:
            self.outbox.raise_failure()
            raise WriterClosedError(self.calls.name)

    async def _register(self) -> None:
        info = await self.calls.describe()
        if info.config.log == "external":
            raise LogIsExternalError(info.stream)
        registered = await self.calls.register(self._first_time)
        self._former_position = dict(registered.position)
        self.outbox.follow(info.topology.to_topology())
        if self.noting is not None:
            self.noting.max_future_skew_ms = info.config.max_future_skew_ms
        self.sending.start(
            note_interval_s=None if self.noting is None else self._note_interval_s,
            always_beats=self._always_beats,
        )
        self.opened = True

    async def wait_for_room(self) -> None:
        """Wait until there is room or the writer is over."""
        with self.outbox.blocked():
            await self.sending.until(lambda: not self.outbox.is_full)

    async def _settle(self) -> None:
        goal = self.outbox.goal
        self.sending.wake(urgent=True)
        await self.sending.until(lambda: self.outbox.is_settled(goal))
        self.outbox.raise_failure()

    def _end(self) -> None:
        self._closed = True
        try:
            if self.opened:
                self.outbox.note_by_strategy()
        finally:
            self.outbox.close()

    async def _stop(self) -> None:
        await self.sending.stop()
        await self.calls.transport.aclose()


class WriterFace:
    """A writer as its owner sees it; how it is called is up to each face."""

    _core: WriterCore

    @property
    def name(self) -> str:
        """The writer's name."""
        return self._core.calls.name

    @property
    def incarnation(self) -> int | None:
        """From the registration; None before `open`."""
        return self._core.calls.incarnation

    @property
    def watermark(self) -> int | None:
        """The newest watermark that this writer was told, ms."""
        return self._core.calls.watermark

    @property
    def told_time(self) -> int | None:
        """What the registration told, ms: nothing below it is safe to write.

        Where the writer went on from: its own last time if it was still waited for, otherwise what
        the others had reached. None before `open`, if there was no mark yet, and if it stayed out.
        """
        return self._core.calls.told_time

    @property
    def position(self) -> dict[int, int]:
        """How far the events of this writer are stored, former incarnations included."""
        return self._core.position

    @property
    def unstored(self) -> int:
        """How many events were written and are not acknowledged."""
        return self._core.outbox.unstored

    @property
    def late_events(self) -> int:
        """How many events were below a time noted before them; 0 without a strategy."""
        return self._core.noting.late_events if self._core.noting else 0

    @property
    def future_events(self) -> int:
        """How many events the strategy left out: their times were too far in the future."""
        return self._core.noting.future_events if self._core.noting else 0


def _strategy(options: WriterOptions) -> Strategy | None:
    strategy = options.get("strategy")
    if not isinstance(strategy, Strategy | None):
        msg = (
            f"strategy is {strategy!r}; pass a Strategy, such as TimeLag(timedelta(seconds=5))"
        )
        raise TypeError(msg)
    if not options.get("automatically_note_time"):
        return strategy
    if strategy is not None:
        msg = (
            "automatically_note_time is a strategy itself, TimeLag of 0; leave one of them out"
        )
        raise ValueError(msg)
    return TimeLag(timedelta(0))
