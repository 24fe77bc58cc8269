"""Listening time is stamped, and stands while no report can be stored."""

import asyncio
import logging
from typing import TYPE_CHECKING

from controller.clocks import STAMP_MS
from controller.store import streams as storage
from tidegauge.errors import OutcomeUnknownError, UnavailableError

if TYPE_CHECKING:
    from controller.service import Service

_log = logging.getLogger(__name__)
_LONGEST_BATCH_S = 1.0


class Stamping:
    """Stamps the listening time of a controller.

    It stands without a lease in force, while a batch does not come to an end, and from a
    transaction that failed until a probe succeeds. Other transactions that succeed meanwhile
    say nothing: a full disk may take a stamp, or a deletion, and refuse reports.

    Parameters
    ----------
    service
        Whose clock it is.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._failures = 0
        self._failures_settled = 0

    def note_failure(self) -> None:
        """Let the clock stand: a transaction failed."""
        if self._has_room:
            _log.warning("listening time stands: changes cannot be stored")
        self._failures += 1
        self._service.clocks.listening.stamp(halt=True)

    async def stamp_forever(self) -> None:
        """Make a stamp now, and every 250 ms until cancelled."""
        while True:
            self._stamp()
            await asyncio.sleep(STAMP_MS / 1_000)

    async def probe_forever(self) -> None:
        """Try every 250 ms whether reports can be stored again, until cancelled."""
        while True:
            await asyncio.sleep(STAMP_MS / 1_000)
            if not self._has_room and self._service.ownership.is_certain:
                await self._probe()

    @property
    def _has_room(self) -> bool:
        return self._failures == self._failures_settled

    def _stamp(self) -> None:
        service = self._service
        listens = (
            self._has_room
            and service.ownership.is_certain
            and service.sequencer.busy_s < _LONGEST_BATCH_S
        )
        stamp = service.clocks.listening.stamp(halt=not listens)
        if listens:
            service.ownership.keep_stamp(stamp)

    async def _probe(self) -> None:
        """Store what reports would; the race: another transaction fails meanwhile."""
        failures = self._failures
        try:
            await self._service.database.change(storage.check_room)
        except (OutcomeUnknownError, UnavailableError) as error:
            _log.debug("changes cannot be stored yet: %s", error)
            return
        self._failures_settled = failures
        if self._has_room:
            _log.warning("listening time goes on: changes can be stored again")
