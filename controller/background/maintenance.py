"""Work in the background, a little at a time: transactions that time out, retention, compaction, old outcomes and holds."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from controller.clocks import Clocks
from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.log.compaction import Compactor
from controller.log.outcomes import forget_outcomes
from controller.store.holds import forget_holds
from controller.streams.registry import Registry
from controller.streams.transactions import reap
from controller.streams.truncation import apply_retention
from tidegauge import errors
from tidegauge.wire.transactions import DAY_MS

_log = logging.getLogger(__name__)
_PERIOD_S = 2.0  # small chunks and old outcomes only take space until then
_STREAMS_AT_ONCE = 100  # a fraction of a millisecond, in which nobody else has a turn
_ROWS_AT_ONCE = 1_000
"""Roughly how many idempotency keys run out in two seconds, if many do."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Does this for every stream, every two seconds."""

    _registry: Registry
    _sequencer: Sequencer
    _database: Database
    _compactor: Compactor
    _clocks: Clocks
    _hold_retention_ms: int | None

    async def run(self) -> None:
        """Maintain all streams until cancelled."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            await self._maintain_logs()
            # Nobody repeats a request, or asks how a transaction ended, after a day.
            now_ms = self._clocks.now().wall_ms
            self._forget(partial(forget_outcomes, before_ms=now_ms - DAY_MS))
            if self._hold_retention_ms is not None:
                before_ms = now_ms - self._hold_retention_ms
                self._forget(partial(forget_holds, before_ms=before_ms, most=_ROWS_AT_ONCE))

    def _forget(self, work: Callable[[Connection], None]) -> None:
        self._sequencer.submit_quietly(partial(Batch.write, work=work, rows=_ROWS_AT_ONCE))

    async def _maintain_logs(self) -> None:
        """Abort transactions whose leases ran out, truncate by retention, merge small chunks."""
        for index, state in enumerate(list(self._registry)):
            if index % _STREAMS_AT_ONCE == 0:
                await asyncio.sleep(0)  # of many streams most have nothing to wait for
            if state.published.tails is None:
                continue
            try:
                if state.embedded_log().transactions.run_out(state.listening_ms):
                    self._sequencer.submit_quietly(partial(reap, state=state))
                await apply_retention(self._database, state)
                await self._compactor.compact(state.identity.key, state.published.tails)
            except (
                errors.OutcomeUnknownError,
                errors.UnavailableError,
                errors.UnknownStreamError,
            ) as error:
                # The database has logged all of it already; or what was listed was deleted while
                # others were maintained.
                _log.debug("a log is not maintained yet: %s", error)
            except errors.TidegaugeError:
                _log.exception("maintenance failed", extra={"stream": str(state.identity.name)})
