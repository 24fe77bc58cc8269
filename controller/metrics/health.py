"""Whether this process lives, and whether it can serve: the truth for those who probe it."""

import asyncio
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from controller.database import DatabaseUnusableError
from tidegauge.errors import TidegaugeError

if TYPE_CHECKING:
    from controller.service import Service

_PATIENCE_S = 2.0
_log = logging.getLogger(__name__)


class Health:
    """Looks for what is wrong with a service.

    Everybody may probe, so that reasons name no file, host or user: the log does.

    Parameters
    ----------
    service
        What is looked at.

    Attributes
    ----------
    stopping
        Whether a signal asked the process to end.
    """

    def __init__(self, service: "Service") -> None:
        self.stopping = False
        self._service = service
        self._max_stall_s = service.settings.max_stall_ms / 1_000
        self._probe: asyncio.Task[None] | None = None
        self._logged: str | None = None

    def ailments(self) -> list[str]:
        """List why the process should be started anew; empty while all of it moves."""
        return list(self._ailments())

    async def obstacles(self) -> list[str]:
        """List why requests should go elsewhere for now; empty if they are served."""
        database = await self._ask_database()
        found = self.ailments()
        if self.stopping:
            found.append("the service is shutting down")
        if not self._service.started:
            found.append("the service is reading its streams back")
        return found if database is None else [*found, database]

    def _ailments(self) -> Iterator[str]:
        for task in self._service.tasks:
            if task.done():
                yield f"{task.get_name()} has ended; the log says why"
        if not self._service.started:
            return
        silent_s = self._service.clocks.listening.stamp_age_ms / 1_000
        if silent_s > self._max_stall_s:
            yield f"the event loop was blocked for {silent_s:.1f} s"
        busy_s = self._service.sequencer.busy_s
        if busy_s > self._max_stall_s:
            yield f"a batch of changes has not come to an end for {busy_s:.1f} s"

    async def _ask_database(self) -> str | None:
        """Read something, but never twice at once: what hangs must not pile up.

        The race: who waited for the same probe may begin the next one before all have seen it.
        """
        probe = self._probe
        if probe is None or probe.done():
            database = self._service.database
            probe = self._probe = asyncio.create_task(database.read(database.check))
            probe.add_done_callback(self._log_probe)
        answered, _ = await asyncio.wait({probe}, timeout=_PATIENCE_S)
        if not answered:
            return f"the database has not answered for {_PATIENCE_S:g} s"
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
