"""The life of a controller: it stands by, holds the database, and stands by again once it has lost it."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from controller.cluster import Right
from controller.commit.sequencer import UNCERTAIN, log_failure
from controller.configuration import ServeSettings
from controller.factory import compose
from controller.metrics.counters import Metrics
from controller.metrics.health import READING
from controller.tenure import Tenure, cancel
from tidegauge.errors import OutcomeUnknownError, TidegaugeError, UnavailableError

_QUICK_START_S = 1.0
"""A start that is over by then answers no call with 503; a longer one goes on beside the probes."""
_HAND_OVER_S = 1.0
"""Calls that are under way usually end by then."""
_AGAIN_S = 1.0
"""After a tenure that could not begin."""
_log = logging.getLogger(__name__)


class Process:
    """What stays of a controller while tenures come and go.

    Nothing of a tenure outlives it: whoever loses the right drops all that it has in memory, and
    reads it back once it has the right again.
    """

    def __init__(self, settings: ServeSettings, right: Right) -> None:
        self.on_start: Callable[[], None] = lambda: None
        """Called whenever all streams are read back."""
        self.on_stand_by: Callable[[str], None] = lambda _awaited: None
        """Called with what it waits for, if it does not hold the database soon after it began."""
        self.settings = settings
        self.right = right
        self.metrics = Metrics()
        self.tenure: Tenure | None = None
        self.stopping = False
        self.is_taking_over = False
        """Whether it has the right, whatever there is of its tenure."""
        self._tasks: list[asyncio.Task[None]] = []
        self._started = asyncio.Event()
        self._living: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Begin; what takes long goes on in the background, while probes are answered."""
        self._living = asyncio.create_task(
            self._live(), name="holding the database or standing by"
        )
        self.supervise(self._living)
        started = asyncio.ensure_future(self._started.wait())
        ways = {self._living, started}
        await asyncio.wait(ways, timeout=_QUICK_START_S, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if not (self.is_taking_over or self._living.done()):
            self.on_stand_by(self.right.awaited)

    def supervise(self, task: "asyncio.Task[None]") -> None:
        """Log if a task fails that is to run as long as the process, and report it to probes."""
        task.add_done_callback(log_failure)
        self._tasks.append(task)

    @property
    def failed(self) -> bool:
        """Whether this process cannot go on: what it needs came to nothing."""
        living = self._living
        if living is None or not living.done() or living.cancelled():
            return False
        return living.exception() is not None

    @property
    def holds(self) -> bool:
        """Whether this controller holds the database, and has read it back."""
        return self.tenure is not None and self.tenure.parts.health.started

    def ailments(self) -> list[str]:
        """List why the process should be started anew; empty while all of it moves."""
        tenure = self.tenure
        return self._ended() + ([] if tenure is None else tenure.parts.health.ailments())

    async def obstacles(self) -> list[str]:
        """List why requests should go elsewhere for now; empty if they are served."""
        obstacles = ["the service is shutting down"] if self.stopping else []
        if self.tenure is None:
            return [*self.ailments(), *obstacles, self.standby]
        parts = self.tenure.parts
        if parts.health.started and not parts.is_certain():
            obstacles.append(UNCERTAIN)
        return [*obstacles, *self._ended(), *await parts.health.obstacles()]

    @property
    def standby(self) -> str:
        """Why this controller serves no streams: another one does, or nobody."""
        if self.is_taking_over:
            return READING
        holder = self.right.holder or "a controller without a URL of its own, or none,"
        return f"this controller stands by; {holder} holds the database"

    def begin_to_end(self) -> None:
        """Answer every long poll, now and from now on: the service shuts down.

        What another controller can go on with is given up soon, however long a client takes to
        send the rest of its call.
        """
        self.stopping = True
        if self.tenure is None:
            self._begin_to_leave()  # it must not take over any more
        else:
            self.tenure.begin_to_end()
            asyncio.get_running_loop().call_later(_HAND_OVER_S, self._begin_to_leave)

    async def close(self) -> None:
        """Answer the calls that wait, finish what was submitted, give the right back."""
        self.begin_to_end()
        await self._begin_to_leave()
        await asyncio.to_thread(self.right.close)

    def _ended(self) -> list[str]:
        return [
            f"{task.get_name()} has ended; the log says why"
            for task in self._tasks
            if task.done() and not self.stopping
        ]

    async def _live(self) -> None:
        while True:
            await self.right.acquire()
            self.is_taking_over = True
            keeping = asyncio.create_task(self.right.keep(), name="keeping the right")
            try:
                await self._hold_while(keeping)
            finally:
                self.is_taking_over = False
                await cancel([keeping])

    async def _hold_while(self, keeping: "asyncio.Task[None]") -> None:
        """Hold the database until the right is lost, or the tenure cannot begin."""
        starting = asyncio.create_task(self._start(), name="reading the streams back")
        try:
            await asyncio.wait({starting, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
                self._started.set()
                self.on_start()
            await keeping
        except TidegaugeError as error:
            _log.error("cannot hold the database: %s", error)
            await self._end_tenure()
            # A renewal that is under way would make it certain once more.
            await cancel([keeping])
            with suppress(UnavailableError, OutcomeUnknownError):  # the lease runs out
                await self.right.leave()
            await asyncio.sleep(_AGAIN_S)
        finally:
            await cancel([starting])
        # Also what was being opened when the right was lost.
        await self._end_tenure()

    async def _start(self) -> None:
        database = await self.right.open()
        parts = compose(self.settings, database, right=self.right, metrics=self.metrics)
        self.tenure = Tenure(parts)
        began = monotonic()
        await self.tenure.start()
        figures = {"streams": len(parts.registry), "read_s": round(monotonic() - began, 2)}
        _log.info("has read all streams back", extra=figures)

    async def _end_tenure(self) -> None:
        tenure, self.tenure = self.tenure, None
        if tenure is not None:
            tenure.begin_to_end()
            await tenure.finish(is_lost=True)
            await tenure.close()

    def _begin_to_leave(self) -> "asyncio.Task[None]":
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._leave(), name="leaving")
        return self._leaving

    async def _leave(self) -> None:
        """Finish what was submitted, and give the right back, or say what is left undone."""
        if self._living is not None:
            await cancel([self._living])
        tenure = self.tenure
        if tenure is not None:
            await tenure.finish()
        try:
            # Last: once the right is given back, others take over what the last batch stored.
            await self.right.leave()
        except TidegaugeError as error:
            _log.error(
                "ended without the database: the lease was not given back, but runs out; of the "
                "last changes, %d were not stored, or nobody knows whether they were: %s",
                0 if tenure is None else tenure.unstored,
                error,
            )
        self.tenure = None
        if tenure is not None:
            await tenure.close()
