"""What transactions leave behind: ends of leases, staged events, and outcomes that are old."""

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from sqlalchemy import Connection

from controller.background.purging import Pace
from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.log import staging
from controller.log.embedded import EmbeddedLog
from controller.logs.deduplication import LogOnce
from controller.streams.lease import Lease
from controller.streams.registry import Registry
from controller.streams.transactions import reap
from tidegauge.errors import TidegaugeError
from tidegauge.wire.transactions import DAY_MS

_log = logging.getLogger(__name__)
_PERIOD_S = 1.0  # leases are seconds at least, and calls look for themselves
_STREAMS_AT_ONCE = 100  # a fraction of a millisecond, in which nobody else has a turn
_FORGET_EVERY = 60  # periods: what is remembered for a day may be so for a minute more
_FEWEST_ROWS = 4
"""Staged chunks may be megabytes: a slow disk removes few of them in a step."""


@dataclass(slots=True)
class Reaper:
    """Aborts transactions whose leases have run out, and removes what finished ones staged."""

    _registry: Registry
    _sequencer: Sequencer
    _database: Database
    _lease: Lease
    _pace: Pace
    _not_cleared: LogOnce = field(default_factory=partial(LogOnce, _log))

    def __post_init__(self) -> None:
        self._pace.rows = _FEWEST_ROWS  # until it is known how long the rows are

    async def run(self) -> None:
        """Look until cancelled; staged events are removed a few at a time, with rests."""
        period = 0
        while True:
            await asyncio.sleep(_PERIOD_S)
            await self._abort_run_out()
            if period % _FORGET_EVERY == 0:
                self._forget_finished()
            period += 1
            while await self._clear_some():
                pass

    async def _abort_run_out(self) -> None:
        for index, state in enumerate(list(self._registry)):
            if index % _STREAMS_AT_ONCE == 0:
                await asyncio.sleep(0)  # most have nothing open
            is_due = isinstance(state.log, EmbeddedLog) and state.log.transactions.run_out(
                state.listening_ms
            )
            if is_due and not state.deleted:
                self._sequencer.submit_quietly(partial(reap, state=state))

    def _forget_finished(self) -> None:
        if not self._lease.is_certain:
            return
        before_ms = self._registry.clocks.now().wall_ms - DAY_MS
        forget = partial(staging.forget_finished, before_ms=before_ms)
        self._sequencer.submit_quietly(partial(Batch.write, work=forget, rows=1_000))

    async def _clear_some(self) -> bool:
        """Make one step, and rest; False if there was none to make, or it cannot be made now."""
        if not self._lease.is_certain:
            return False
        began = perf_counter()
        try:
            left = await self._database.read(staging.has_finished_stagings)
            cleared = left and await self._database.change(self._step)
        except TidegaugeError as error:
            self._not_cleared.log(f"staged events were not removed: {error}")
            return False
        self._not_cleared.end()
        if cleared:
            await asyncio.sleep(self._pace.rest_s(began))
        return cleared

    def _step(self, connection: Connection) -> bool:
        began = perf_counter()
        cleared = staging.clear_staged(connection, self._pace.rows)
        if cleared:
            self._pace.adjust(began, fewest=_FEWEST_ROWS)
        return cleared
