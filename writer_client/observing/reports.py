"""What an observer reports to the service: which writers there are, what they note, and which leave."""

import time
from collections.abc import Callable, Mapping

from tidegauge.client.transport import is_transient
from tidegauge.errors import ProblemError, TidegaugeError, WriterFencedError
from tidegauge.wire.writers import WriterRegistered
from writer_client._calls import ObserverCalls
from writer_client._notes import Note
from writer_client.observing.observation import Observation
from writer_client.observing.watching import describe_behind

_LATE = (
    "event time %d is below %d, which was noted before it: the event may be late for every reader. If the "
    "status line counts many of these, choose a longer lag or delay (--strategy)"
)
_BELOW_A_PROMISE = (
    "event time %d is below %d, which its partition had promised: the event is late for every reader. A row that "
    "a changefeed delivers again is right to be; a new one means that another producer writes to the topic, or that "
    "--event-time is not the time that is promised"
)
_FUTURE = (
    "event time %d is above %d, this machine's clock plus max_future_skew_ms: it is ignored. Correct the "
    "clock that it is from or, if such times are meant, raise max_future_skew_ms"
)


class Reports:
    """Reports what follows from an observation; ``warn`` takes a line about what is wrong."""

    def __init__(
        self, calls: ObserverCalls, observation: Observation, warn: Callable[[str], object]
    ) -> None:
        self._calls = calls
        self._observation = observation
        self._sources = observation.sources
        self._warn = warn

    async def report(self, *, at_end: bool) -> None:
        """Register, let leave and note; while the service is away, each turn gives way to the next.

        At the end of what is to be read, writers of which nothing was read hold nobody.
        """
        try:
            self.admit(await self._calls.register(self._sources.newcomers()))
            leaving = self._sources.unheard() if at_end else self._sources.silent()
            for writer, refusal in (await self._calls.leave(leaving)).items():
                if refusal is not None:
                    self._give_up(writer)
                elif at_end:
                    self._sources.give_up(writer)
                else:
                    self._sources.leave(writer)
            await self._leave_out()
            for note, problem in await self._calls.note(self._observation.notes(_now_ms())):
                self._hear(note, problem)
            self._log_odd()
        except TidegaugeError as error:
            if not is_transient(error):  # the others are warned of by the transport
                raise

    def _log_odd(self) -> None:
        counts, hints = self._sources.counts, self._calls.hints
        if counts.first_late is not None:
            writer, *times = counts.first_late
            is_promised = self._observation.notes_promises
            hints.log(writer, "late", _BELOW_A_PROMISE if is_promised else _LATE, *times)
        if counts.first_future is not None:
            writer, *times = counts.first_future
            hints.log(writer, "future", _FUTURE, *times)

    async def _leave_out(self) -> None:
        """Let those leave that hold the others for too long."""
        overdue = self._sources.overdue()
        for writer, refusal in (await self._calls.leave(overdue)).items():
            if refusal is not None:
                self._give_up(writer)
                continue
            behind = describe_behind(self._sources.holding[writer])
            self._sources.leave_out(writer)
            self._warn(
                f"writer {writer!r} has held the others for the hold limit, {behind}: it is left "
                "out until it is within the limit; correct its clock, or give a longer --hold-limit"
            )

    def _hear(self, note: Note, problem: ProblemError | None) -> None:
        if problem is None:
            self._observation.accept(note, _now_ms())
        elif isinstance(problem, WriterFencedError):
            self._give_up(note.writer)
        elif not is_transient(problem):
            raise problem

    def _give_up(self, writer: str) -> None:
        if not self._sources.give_up(writer):  # it was, by an earlier one of these notes
            return
        self._warn(
            f"another process notes time as writer {writer!r} now; if that is its producer itself, "
            f"start observers with --except {writer}"
        )

    def admit(self, registered: Mapping[str, WriterRegistered]) -> None:
        """Record that writers are registered."""
        now_ms = _now_ms()
        for writer, one in registered.items():
            self._observation.beat_ms = one.beat_ms
            self._observation.admit(writer, one.time, now_ms)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
