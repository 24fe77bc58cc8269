"""Listening time is stamped, and is stopped while no report can be stored."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from controller.clocks import STAMP_MS
from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.store import streams as storage
from controller.streams.registry import Registry
from tidegauge.errors import OutcomeUnknownError, UnavailableError

_log = logging.getLogger(__name__)
_STAMPS_BETWEEN_IDLE_WRITES = 240
"""A minute of stamps: with no clock running, a crash loses that much of listening time."""
_LONGEST_BATCH_S = 1.0
"""Longer ones are an outage: nobody's report is taken meanwhile. A step counts as 1 s at most."""


@dataclass(slots=True)
class Stamping:
    """Stamps the listening time of a controller, and stores the stamps.

    It is stopped while the controller is not certain that it holds the database, while a batch does not come to an end, and from a
    transaction that failed until a probe succeeds. Other transactions that succeed meanwhile
    say nothing: a full disk may take a stamp, or a deletion, and refuse reports.
    """

    _registry: Registry
    _sequencer: Sequencer
    _database: Database
    _is_certain: Callable[[], bool]
    _stamps: int = 0
    _failures: int = 0
    _failures_over: int = 0
    """How many of them were there when a probe last succeeded."""

    def note_failure(self) -> None:
        """Stop the clock: a transaction failed."""
        if self._has_room:
            _log.warning("the database refuses writes; no writer expires meanwhile")
        self._failures += 1
        self._registry.clocks.listening.stamp(halt=True)

    async def stamp_forever(self) -> None:
        """Make a stamp now, and every 250 ms until cancelled."""
        while True:
            listens = (
                self._has_room
                and self._is_certain()
                and self._sequencer.busy_s < _LONGEST_BATCH_S
            )
            stamp = self._registry.clocks.listening.stamp(halt=not listens)
            if listens:
                self._stamps += 1
                is_time = self._stamps % _STAMPS_BETWEEN_IDLE_WRITES == 0
                if self._registry.ticking or is_time:
                    self._store(stamp)
            await asyncio.sleep(STAMP_MS / 1_000)

    async def probe_forever(self) -> None:
        """Check every 250 ms whether reports can be stored again, until cancelled."""
        while True:
            await asyncio.sleep(STAMP_MS / 1_000)
            if self._has_room or not self._is_certain():
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

    def stamp_last(self) -> None:
        """Store an exact stamp, from which whoever holds the database next goes on."""
        self._store(self._registry.clocks.listening.stamp())

    def _store(self, stamp_ms: int) -> None:
        def decide(batch: Batch) -> None:
            batch.write_together(storage.write_stamps, stamp_ms)

        self._sequencer.submit_quietly(decide)

    @property
    def _has_room(self) -> bool:
        return self._failures == self._failures_over
