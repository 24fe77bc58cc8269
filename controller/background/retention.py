"""Removing old marks in the background: a few rows at a time, so that reports hardly notice.

Every stream's marks are swept in order of revision, once for each tier of age: a sweep goes on
where it stopped, and so reads each mark once a tier. Marks never change and only sweeps
remove them, so that what a sweep has read stays true. Where it left off is not stored: after a
restart all marks are read again, at leisure.

The age of a mark is by the wall clock, the time of the next sweep by the monotonic one: a wall
clock that was ahead for a moment stops no sweep.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from time import monotonic, perf_counter

from sqlalchemy import Connection

from controller.background.purging import Pace
from controller.database import Database
from controller.groups import read_positions
from controller.log.embedded import EmbeddedLog
from controller.store.marks import MarkRow, StoredMarks, delete_marks, mark_rows
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from tidegauge.errors import OutcomeUnknownError, TidegaugeError, UnavailableError
from tidegauge.lattice import DownSet
from tidegauge.marks import Mark
from tidegauge.retention import Tier, count_old, newest_at, surplus, tiers
from tidegauge.windows import count_passed

_log = logging.getLogger(__name__)
_PERIOD_S = 1.0  # nothing was due: marks grow old by seconds at least
_FEWEST_ROWS = 16  # a sweep must get on, however slow the disk is
_SOONEST_S, _LATEST_S = 1.0, 3_600.0
"""When to check again what is not old yet: a wall clock that is behind stops no sweep for ever."""
_CHECKS_PER_AGE = 4
"""So many times in the age of a tier: marks are removed late by a quarter of it at most."""
_FIRST_REVISION = 1
_TRUNCATED = Tier(age_ms=0, step_ms=None)
"""Marks of events that are truncated, whatever their age: searched once for each truncation."""


@dataclass(slots=True)
class Progress:
    """Where the sweep of one tier of a stream has come to."""

    revision: int = 0
    lower: int | None = None
    due_s: float = 0.0


@dataclass(slots=True)
class Sweep:
    """Where the sweeps of a stream have come to."""

    tiers: dict[Tier, Progress] = field(default_factory=dict)
    due_s: float = 0.0
    truncated: DownSet = field(default_factory=dict)
    """The events whose marks are removed, or will be."""

    def truncate(self, truncated: DownSet) -> None:
        """Check at once for marks of what was truncated since."""
        if truncated != self.truncated:
            self.truncated, self.due_s = truncated, 0.0
            self.tiers[_TRUNCATED] = Progress()

    def next(self, tiers: list[Tier], now_s: float) -> tuple[Tier, Progress] | None:
        """Choose the oldest tier that is due; it begins where older ones have been at least."""
        furthest = Progress()
        for tier in tiers:
            progress = self.tiers.setdefault(tier, Progress())
            if progress.revision < furthest.revision:
                progress.revision, progress.lower = furthest.revision, furthest.lower
            if progress.due_s <= now_s:
                return tier, progress
            furthest = progress
        self.due_s = min((self.tiers[tier].due_s for tier in tiers), default=now_s)
        self.due_s = max(self.due_s, now_s + _SOONEST_S)
        return None


@dataclass(slots=True)
class Sweeper:
    """Removes the old marks of all streams."""

    _registry: Registry
    _database: Database
    _thinning: Sequence[Tier]
    _pace: Pace
    monotonic_s: Callable[[], float] = monotonic
    _sweeps: dict[int, Sweep] = field(default_factory=dict)

    async def run(self) -> None:
        """Sweep until cancelled: a step of every stream in turn, and a rest after each."""
        while True:
            if not await self._sweep_due():
                await asyncio.sleep(_PERIOD_S)

    async def _sweep_due(self) -> bool:
        """Make a step of every stream that is due; False if it is time to rest."""
        registry, now_s, busy = self._registry, self.monotonic_s(), False
        if len(self._sweeps) > len(registry):  # some were deleted
            known = {state.identity.key for state in registry}
            self._sweeps = {key: sweep for key, sweep in self._sweeps.items() if key in known}
        for state in list(registry):
            sweep = self._sweeps.setdefault(state.identity.key, Sweep())
            sweep.truncate(_truncated(state))
            if state.revision <= 1 or sweep.due_s > now_s:
                continue
            try:
                busy |= await self.sweep(state)
            except (OutcomeUnknownError, UnavailableError) as error:
                # The database has logged all of it already.
                _log.debug("no marks are swept yet: %s", error)
                busy = False
            except TidegaugeError:
                name = str(state.identity.name)
                _log.exception("marks were not swept", extra={"stream": name})
                busy = False
        return busy

    async def sweep(self, state: StreamState) -> bool:
        """Make one step, and return whether there was one to make."""
        sweep = self._sweeps.setdefault(state.identity.key, Sweep())
        wanted = tiers(self._thinning, state.config.mark_retention_ms)
        if sweep.truncated:
            wanted.insert(0, _TRUNCATED)
        due = sweep.next(wanted, self.monotonic_s())
        if due is None:
            return False
        began = perf_counter()
        await self._step(state, *due)
        await asyncio.sleep(self._pace.rest_s(began))
        return True

    async def _step(self, state: StreamState, tier: Tier, progress: Progress) -> None:
        """Remove those of some marks that may go, and return when to check the next ones."""
        key, limit = state.identity.key, self._pace.rows + 1
        read = partial(mark_rows, stream_key=key, after=progress.revision, limit=limit)
        rows = await self._database.read(read)
        # The last of them may be the newest; and it is the newest before some position.
        wall_ms = state.now().wall_ms
        if tier == _TRUNCATED:
            first = _truncated(state)
            old = rows[: count_passed(state.aggregator.topology, _marks(rows[:-1]), first)]
        else:
            old = rows[: count_old(rows[:-1], wall_ms - tier.age_ms)]
        if not old and tier == _TRUNCATED:
            progress.due_s = inf
            return
        if not old:
            # Until some marks have grown old, if no clock is set. Never longer than an hour: a
            # wall clock that is behind makes marks look made in the future.
            young_ms = rows[0].created_ms + tier.age_ms - wall_ms if rows else 0
            some_s = max(_SOONEST_S, tier.age_ms / 1_000 / _CHECKS_PER_AGE)
            pause_s = min(_LATEST_S, max(0.0, young_ms / 1_000) + some_s)
            progress.due_s = self.monotonic_s() + pause_s
            if tier.step_ms is None:  # the few that were spared
                progress.revision, progress.lower = 0, None
            return
        gone = surplus(old, tier.step_ms, progress.lower)
        if gone:
            await self._database.change(partial(self._remove, state, rows, gone))
        progress.revision, progress.lower = old[-1].revision, old[-1].lower

    def _remove(
        self,
        state: StreamState,
        rows: Sequence[MarkRow],
        gone: list[int],
        connection: Connection,
    ) -> None:
        """Remove marks but those that are needed.

        The race: a group may go on, or be created, after the rows were read. So what the groups need
        is read in the transaction that removes them.
        """
        identity = state.identity
        positions = read_positions(connection, str(identity.name), identity.stream_id)
        # For each group the newest at or before its position; on the embedded log also the
        # first after the truncation point, and the one before, in force there.
        topology, first = state.aggregator.topology, _truncated(state)
        needed = {newest_at(topology, rows, position) for position in positions}
        if first:
            marks = StoredMarks(connection, identity.key)
            passed = count_passed(topology, marks, first)
            around = range(max(0, passed - 1), min(passed + 1, len(marks)))
            needed |= {marks[at].revision for at in around}
        elif state.log.tails is not None:
            needed.add(_FIRST_REVISION)
        began = perf_counter()
        delete_marks(connection, identity.key, [one for one in gone if one not in needed])
        self._pace.adjust(began, fewest=_FEWEST_ROWS)


def _truncated(state: StreamState) -> DownSet:
    """Return which events of a stream are truncated."""
    return state.log.first if isinstance(state.log, EmbeddedLog) else {}


def _marks(rows: Sequence[MarkRow]) -> list[Mark]:
    return [Mark(row.revision, row.lower, row.lower, row.cut()) for row in rows]
