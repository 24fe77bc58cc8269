"""Listening time is stamped, and is stopped while no report can be stored."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from controller.clocks import STAMP_MS, ListeningClock
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.store import streams as storage
from controller.streams.lease import Lease
from tidegauge.errors import OutcomeUnknownError, UnavailableError

_log = logging.getLogger(__name__)
_LONGEST_BATCH_S = 1.0
"""Longer ones are an outage: nobody's report is taken meanwhile. A step counts as 1 s at most."""


@dataclass(slots=True)
class Stamping:
    """Stamps the listening time of a controller.

    It is stopped without a lease in force, while a batch does not come to an end, and from a
    transaction that failed until a probe succeeds. Other transactions that succeed meanwhile
    say nothing: a full disk may take a stamp, or a deletion, and refuse reports.
    """

    _listening: ListeningClock
    _lease: Lease
    _sequencer: Sequencer
    _database: Database
    _keep_stamp: Callable[[int], None]
    _failures: int = 0
    _failures_over: int = 0
    """How many of them were there when a probe last succeeded."""

    def note_failure(self) -> None:
        """Stop the clock: a transaction failed."""
        if self._has_room:
            _log.warning("the database refuses writes; no writer expires meanwhile")
        self._failures += 1
        self._listening.stamp(halt=True)

    async def stamp_forever(self) -> None:
        """Make a stamp now, and every 250 ms until cancelled."""
        while True:
            listens = (
                self._has_room
                and self._lease.is_certain
                and self._sequencer.busy_s < _LONGEST_BATCH_S
            )
            stamp = self._listening.stamp(halt=not listens)
            if listens:
                self._keep_stamp(stamp)
            await asyncio.sleep(STAMP_MS / 1_000)

    async def probe_forever(self) -> None:
        """Check every 250 ms whether reports can be stored again, until cancelled."""
        while True:
            await asyncio.sleep(STAMP_MS / 1_000)
            if self._has_room or not self._lease.is_certain:
                continue
            failures = self._failures
            try:
                await self._database.change(storage.check_room)
            except (OutcomeUnknownError, UnavailableError) as error:
                _log.debug("changes cannot be stored yet: %s", error)
                continue
            # The race: another transaction failed meanwhile, which this one says nothing of.
            self._failures_over = failures
            if self._has_room:
                _log.warning("the database takes writes again; writers may expire")

    @property
    def _has_room(self) -> bool:
        return self._failures == self._failures_over
