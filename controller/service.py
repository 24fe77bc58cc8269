"""The service: what can be asked of it, independent of HTTP."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from sqlalchemy import Connection

from controller.access.limits import Limits
from controller.background.maintenance import maintain_streams
from controller.background.purging import Purger
from controller.background.retention import Sweeper
from controller.background.stamping import Stamping
from controller.clocks import Clocks, ListeningClock
from controller.cluster import Ownership, SharedOwnership, SoleOwnership
from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.commit.waiting import WaitingRoom
from controller.configuration import ServeSettings
from controller.database import PostgresDatabase, open_database
from controller.groups import Groups
from controller.metrics.counters import Metrics
from controller.metrics.health import Health
from controller.store import streams as storage
from controller.streams.stream import (
    Registry,
    StreamContext,
    StreamState,
    restore_stream,
    visit_stream,
)
from tidegauge.aggregation.outcomes import PassOutcome
from tidegauge.errors import (
    OutcomeUnknownError,
    TidegaugeError,
    UnavailableError,
    UnknownStreamError,
)
from tidegauge.names import StreamName

_QUICK_START_S = 1.0
_DATABASE_GRACE_S = 4.0
"""How long a database that hangs is waited for in the end: callers are cut off after 10 s, and
to connect in vain takes 5 s more."""
_HAND_OVER_S = 1.0
"""Calls that are under way usually end by then."""
_log = logging.getLogger(__name__)


class Service:
    """One controller over one database.

    Parameters
    ----------
    settings
        What `tidegauge serve` was told.
    address
        Where other controllers reach this one, if they share its database.
    """

    def __init__(self, settings: ServeSettings, *, address: str = "") -> None:
        self.settings = settings
        self.database = open_database(
            settings.database_url, max_bytes=settings.max_database_bytes
        )
        self.sequencer = Sequencer(self.database)
        self.registry = Registry()
        self.limits = Limits.of(settings)
        self.waiting = WaitingRoom(settings.max_long_polls)
        self.groups = Groups(self)
        self.metrics = Metrics()
        self.ownership = self._make_ownership(address)
        self.clocks: Clocks
        self.context: StreamContext
        self.stamping = Stamping(self)
        self.health = Health(self)
        self.started = False
        """Whether all streams are read back."""
        self.on_start: Callable[[], None] = lambda: None
        """Called then."""
        self.tasks: list[asyncio.Task[None]] = []
        """What has to go on as long as the service is open."""
        self._starting: asyncio.Task[None] | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._handing_over: asyncio.Task[None] | None = None
        self._unstored_before = 0

    async def begin(self) -> None:
        """Start, in the background if it takes long: probes are answered, others told to wait."""
        self._starting = asyncio.create_task(self.start(), name="reading the streams back")
        self._starting.add_done_callback(_log_failure)
        await asyncio.wait({self._starting}, timeout=_QUICK_START_S)

    @property
    def failed(self) -> bool:
        """Whether the start came to nothing."""
        return self._starting is not None and self._starting.done() and not self.started

    async def start(self) -> None:
        """Read the streams back and begin to work."""
        self.clocks = Clocks(ListeningClock(await self.ownership.stored_listening()))
        self.context = StreamContext(
            self.clocks,
            self.limits,
            self.touch,
            self._reload,
            self.registry.remove,
            self._on_pass,
            self.ownership.write_stamps,
            self.ownership.change_store,
            self.registry.ticking,
        )
        self.sequencer.on_batch = self.metrics.count_batch
        self.sequencer.on_failure = self._note_failure
        work = {
            "the maintenance of streams": maintain_streams(self),
            "the sweeping of marks": Sweeper(self).run(),
            "the purging of deleted streams": Purger(self).run(),
        }
        self.tasks = [self.sequencer.start(), *self.tasks, *_begin(work)]
        await self.ownership.start()
        listening = {
            "stamping listening time": self.stamping.stamp_forever(),
            "trying whether changes can be stored": self.stamping.probe_forever(),
        }
        self.tasks += [*self.ownership.tasks, *_begin(listening)]
        for task in self.tasks:
            task.add_done_callback(_log_failure)
        for state in self.registry:
            self.touch(state)
        self.started = True
        self.on_start()

    async def close(self) -> None:
        """Answer who waits, finish what was submitted, give the database back."""
        self.begin_to_end()
        await self._begin_to_hand_over()
        self.database.close()

    def _begin_to_hand_over(self) -> asyncio.Task[None]:
        if self._handing_over is None:
            self._handing_over = asyncio.create_task(self._hand_over(), name="handing over")
        return self._handing_over

    async def _hand_over(self) -> None:
        """Finish what was submitted, and give everything up."""
        await _cancel([self._starting] if self._starting is not None else [])
        if self.started:
            _, *background = self.tasks
            await _cancel(background)
            await self.ownership.stop()
            await self.sequencer.close()
        await self._leave()

    async def _leave(self) -> None:
        """Give everything back, or say what is left undone."""
        try:
            await self.ownership.leave()
        except (OutcomeUnknownError, UnavailableError) as error:
            _log.error(
                "ended without the database: the lease was not given back, but runs out; of the "
                "last changes, %d were not stored, or nobody knows whether they were: %s",
                self.sequencer.unstored - self._unstored_before,
                error.reason,
            )
        if self._giving_up is not None:
            self._giving_up.cancel()

    def begin_to_end(self) -> None:
        """Answer every long poll, now and from now on: the service shuts down.

        A database that hangs is given up in a while, so that who waits for it is answered. What
        other controllers can go on with is given up sooner, however long a client takes to send
        the rest of its call.
        """
        if self._giving_up is None:
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(_DATABASE_GRACE_S, self.database.give_up)
            if self.ownership.controller is not None:
                loop.call_later(_HAND_OVER_S, self._begin_to_hand_over)
            self._unstored_before = self.sequencer.unstored
        self.ownership.closing.set()
        for state in self.registry:
            state.changed.close()

    def _make_ownership(self, address: str) -> Ownership:
        if isinstance(self.database, PostgresDatabase):
            return SharedOwnership(self, self.database, address)
        return SoleOwnership(self)

    def stream(self, name: StreamName, stream_id: str | None = None) -> StreamState:
        """Look a stream up.

        Raises
        ------
        UnknownStreamError
            If there is none.
        StreamReplacedError
            If the caller means another one of that name.
        """
        state = self.registry.get(name)
        state.check_id(stream_id)
        return state

    async def look_at(self, name: StreamName) -> StreamState:
        """Look a stream up, whoever holds it; one that is held elsewhere as the database has it.

        Raises
        ------
        UnknownStreamError
            If there is none.
        """
        if self.ownership.controller is None or self.registry.find(name) is not None:
            return self.registry.get(name)

        def visit(connection: Connection) -> StreamState | None:
            row = storage.find_stream(connection, name)
            return None if row is None else visit_stream(connection, row, self.context)

        found = await self.database.read(visit)
        if found is None:
            raise UnknownStreamError(str(name))
        return found

    def touch(self, state: StreamState) -> None:
        """Let a stream run its due pass and store what changed.

        The race: it is refused, since the database is away. Nothing else may wake the stream, so
        it is tried again.
        """

        def decide(batch: Batch) -> None:
            if not state.deleted:
                batch.touch(state)

        def check(touched: "asyncio.Future[Any]") -> None:
            refused = not touched.cancelled() and touched.exception()
            if isinstance(refused, UnavailableError):
                state.wake_later()
            else:
                _log_defect(touched)

        self.sequencer.submit(decide).add_done_callback(check)

    def submit_quietly(self, decide: Callable[[Batch], Any]) -> None:
        """Submit a change that nobody waits for; a defect is logged.

        A transaction that failed is logged by the sequencer, once for all that it was made of.
        """
        self.sequencer.submit(decide).add_done_callback(_log_defect)

    async def _reload(self, state: StreamState) -> None:
        def read(connection: Connection) -> StreamState | None:
            rows = storage.read_streams(connection, state.identity.key)
            return restore_stream(connection, rows[0], self.context) if rows else None

        restored = await self.database.read(read, patient=True)
        if restored is not None:
            self.registry.add(state)
            state.become(restored)
        else:
            state.deleted = True
            self.registry.remove(state)

    def _note_failure(self) -> None:
        self.metrics.count_commit_failure()
        self.stamping.note_failure()

    def _on_pass(self, state: StreamState, outcome: PassOutcome, seconds: float) -> None:
        self.metrics.count_pass(outcome, seconds)
        for writer in outcome.expired:
            _log.warning("writer expired", extra=_place(state, writer))
        for writer in outcome.forgotten:
            _log.info("writer forgotten", extra=_place(state, writer))


def _place(state: StreamState, writer: str) -> dict[str, str]:
    return {"stream": str(state.identity.name), "writer": writer}


def _begin(work: dict[str, Coroutine[Any, Any, None]]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(one, name=name) for name, one in work.items()]


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _log_defect(future: "asyncio.Future[Any]") -> None:
    refusals = OutcomeUnknownError | UnavailableError
    if not future.cancelled() and not isinstance(future.exception(), refusals):
        _log_failure(future)


def _log_failure(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        expected = isinstance(error, TidegaugeError)
        _log.error(
            "work in the background failed: %s", error, exc_info=None if expected else error
        )
