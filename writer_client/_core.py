"""What both faces of a writer share: its life from registration to the end."""

from datetime import timedelta
from typing import Unpack

from tidegauge.errors import LogIsExternalError
from tidegauge.event_time import check_span
from writer_client._calls import WriterCalls
from writer_client._clocked import wall_ms
from writer_client._membership import MemberFace, Membership
from writer_client._options import WriterOptions
from writer_client._outbox import Outbox
from writer_client._sending import Sending

_BATCH_BYTES = 4 * 1_048_576  # one chunk of the log; a request costs as much as 1 MiB of events
_BUFFER_BYTES = 16 * 1_048_576
_LINGER = timedelta(milliseconds=5)


class WriterCore:
    """One incarnation of a writer, on one event loop; nothing is sent before `open`."""

    def __init__(
        self, url: str, stream: str, name: str, **options: Unpack[WriterOptions]
    ) -> None:
        self.member = Membership(url, stream, name, options, beat="unacknowledged")
        self.member.noter.notes.last_time = self.member.first_time
        self.outbox = Outbox(
            self.member.noter,
            batch_bytes=options.get("batch_bytes", _BATCH_BYTES),
            limit_bytes=options.get("buffer_bytes", _BUFFER_BYTES),
            clock=wall_ms if options.get("automatically_note_time") else None,
        )
        linger = check_span("linger", options.get("linger", _LINGER))
        self.sending = Sending(self.member, self.outbox, linger.total_seconds())
        self.former_position: dict[int, int] = {}

    @property
    def calls(self) -> WriterCalls:
        """The calls of this writer."""
        return self.member.calls

    async def open(self) -> None:
        """Register, once: threads that write their first events together wait for one."""
        self.refuse_if_closed()
        if not self.member.opened:
            await self.member.open(self._register)

    async def flush(self) -> None:
        """Wait until everything written and noted so far is stored."""
        await self.open()
        self.outbox.note_by_strategy()
        await self._settle()

    async def close(self) -> None:
        """Flush, and note the last time again with the final position."""
        if self.member.noter.is_closed:
            return
        try:
            if not self.member.opened and len(self.member.noter.notes):
                await self.member.open(self._register)
            self._end()
            if self.member.opened:
                await self._settle()
                time, position = self.outbox.last
                if time is not None:
                    await self.calls.note_time(time, position)
        finally:
            await self._stop()

    async def leave(self) -> None:
        """Flush, and leave the stream."""
        await self.open()
        try:
            self._end()
            await self._settle()
            await self.calls.leave(*self.outbox.last)
        finally:
            await self._stop()

    def refuse_if_closed(self) -> None:
        """Raise what ended the writer, if it is closed."""
        if self.member.noter.is_closed:
            self.member.noter.refuse_if_over()

    async def _register(self) -> None:
        info = await self.member.describe()
        if info.config.log == "external":
            raise LogIsExternalError(info.stream)
        registered = await self.calls.register(self.member.first_time)
        self.former_position = dict(registered.position)
        self.outbox.follow(info.topology.to_topology())
        self.sending.start()

    async def wait_for_room(self) -> None:
        """Wait until there is room or the writer is over."""
        with self.outbox.blocked():
            await self.member.until(lambda: not self.outbox.is_full)

    async def _settle(self) -> None:
        goal = self.outbox.goal
        self.sending.wake(urgent=True)
        await self.member.until(lambda: self.outbox.is_settled(goal))
        self.member.noter.raise_failure()

    def _end(self) -> None:
        try:
            if self.member.opened:
                self.outbox.note_by_strategy()
        finally:
            self.outbox.close()

    async def _stop(self) -> None:
        self.outbox.close()
        await self.member.stop()
        await self.calls.transport.aclose()


class WriterFace(MemberFace):
    """A writer as its owner sees it; how it is called is up to each face."""

    _core: WriterCore

    @property
    def position(self) -> dict[int, int]:
        """How far the events of this writer are stored, former incarnations included."""
        return self._core.former_position | self._member.noter.notes.reached

    @property
    def unstored(self) -> int:
        """How many events were written and are not acknowledged."""
        return self._core.outbox.unstored
