"""Whether a tenure lives, and whether it can serve: as probes ask."""

import asyncio
import logging
from dataclasses import dataclass, field

from controller.clocks import ListeningClock
from controller.commit.sequencer import Sequencer
from controller.database import Database, DatabaseUnusableError
from tidegauge.errors import TidegaugeError

_TIMEOUT_S = 2.0
"""A prober waits little longer, and takes a process for dead that does not answer."""
READING = "the service is reading its streams back"
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Health:
    """Looks for what is wrong with a service.

    Everybody may probe, so that reasons name no file, host or user: the log does.
    """

    _database: Database
    _sequencer: Sequencer
    _listening: ListeningClock
    max_stall_s: float
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    """The sequencer's first."""
    started: bool = False
    ended: bool = False
    _probe: asyncio.Task[None] | None = None
    _logged: str | None = None

    def ailments(self) -> list[str]:
        """List why the process should be started anew; empty while all of it moves."""
        ailments = [
            f"{task.get_name()} has ended; the log says why"
            for task in self.tasks
            if task.done()
        ]
        if not self.started:
            return ailments
        silent_s = self._listening.stamp_age_ms / 1_000
        if silent_s > self.max_stall_s:
            ailments.append(f"the event loop was blocked for {silent_s:.1f} s")
        busy_s = self._sequencer.busy_s
        if busy_s > self.max_stall_s:
            ailments.append(f"a batch of changes has not come to an end for {busy_s:.1f} s")
        return ailments

    async def obstacles(self) -> list[str]:
        """List why requests should go elsewhere for now; empty if they are served."""
        database = await self._ask_database()
        obstacles = self.ailments()
        if not self.started:
            obstacles.append(READING)
        return obstacles if database is None else [*obstacles, database]

    async def _ask_database(self) -> str | None:
        """Read something, but never twice at once: what hangs must not pile up.

        The race: a caller that waited for a probe may begin the next one before all have seen it.
        """
        probe = self._probe
        if probe is None or probe.done():
            database = self._database
            probe = self._probe = asyncio.create_task(database.read(database.check))
            probe.add_done_callback(self._log_probe)
        answered, _ = await asyncio.wait({probe}, timeout=_TIMEOUT_S)
        if not answered:
            return f"the database has not answered for {_TIMEOUT_S:g} s"
        error = probe.exception()
        if isinstance(error, DatabaseUnusableError):
            return "the database is not the one that was opened; the log says why"
        return None if error is None else "the database cannot be read; the log says why"

    def _log_probe(self, probe: asyncio.Task[None]) -> None:
        """Log what a probe found, unless the one before it found the same."""
        error = None if probe.cancelled() else probe.exception()
        said = None if error is None else str(error)
        if said is not None and said != self._logged:
            defect = None if isinstance(error, TidegaugeError) else error
            _log.error("the database does not answer as it should: %s", said, exc_info=defect)
        self._logged = said
