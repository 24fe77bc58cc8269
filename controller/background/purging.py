"""Removing what was deleted, truncated or staged in the background, a few rows at a time.

A stream that is deleted is gone at once, with its name: only its key is kept, in a table of its
own, until all of its rows are removed. So deleting millions of marks or chunks holds nobody up,
and goes on after a restart. So does truncating: what lies before the first cut is gone at once,
its chunks are searched from their beginning, after a restart again. What a transaction staged is
not needed once it is finished, and goes like a deleted stream.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from time import perf_counter

from sqlalchemy import Connection

from controller.database import Database
from controller.log import staging
from controller.log.embedded import EmbeddedLog
from controller.log.storage import delete_truncated
from controller.logs.deduplication import LogOnce
from controller.schema import metadata
from controller.store import streams as storage
from controller.streams.registry import Registry
from tidegauge.errors import TidegaugeError

_log = logging.getLogger(__name__)
_TRANSACTION_S = 0.005
"""Aimed at: so much longer does a report wait that comes during a transaction that removes."""
_PERIOD_S = 1.0  # nobody waits for rows that are not seen any more
_FEWEST_ROWS = 4
"""Rows may be chunks of megabytes: a slow disk removes few of them in a step."""


class Pace:
    """How many rows to remove in one step, and how long to rest after it."""

    def __init__(self, *, most_rows: int = 500, rest: float = 9.0) -> None:
        self.rows = self._most_rows = most_rows
        self._rest = rest

    def adjust(self, began: float, *, fewest: int) -> None:
        """Halve or double the rows by how long a transaction took since ``perf_counter()``."""
        slow = perf_counter() - began > _TRANSACTION_S
        rows = self.rows // 2 if slow else self.rows * 2
        self.rows = min(self._most_rows, max(fewest, rows))

    def rest_s(self, began: float) -> float:
        """Return how long to rest after a step that began then."""
        return self._rest * (perf_counter() - began)


class Purger:
    """Removes the rows of deleted streams, what transactions staged, and truncated chunks."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        is_certain: Callable[[], bool],
        pace: Pace,
    ) -> None:
        self._database = database
        self._registry = registry
        self._purged: dict[int, dict[int, int]] = {}
        """By key of the stream: the offset of each segment before which no chunk is left."""
        self._is_certain = is_certain
        self._pace = pace
        self._pace.rows = _FEWEST_ROWS  # until it is known how long the rows are
        self._not_removed = LogOnce(_log)

    async def run(self) -> None:
        """Remove rows until cancelled, with a rest after each step."""
        while True:
            began = perf_counter()
            purged = await self._purge_some()
            await asyncio.sleep(self._pace.rest_s(began) if purged else _PERIOD_S)

    async def _purge_some(self) -> bool:
        """Make a step of each; False if there was none to make, or it could not be made now."""
        if not self._is_certain():
            return False
        try:
            left = await self._database.read(_is_anything_left)
            purged = left and await self._database.change(self._step)
            purged |= await self._purge_truncated()
        except TidegaugeError as error:
            self._not_removed.log(f"rows that are not needed were not removed: {error}")
            return False
        self._not_removed.end()
        return purged

    async def _purge_truncated(self) -> bool:
        """Remove some truncated chunks of one segment; False if all that are known are gone."""
        known = {state.identity.key: state for state in self._registry if not state.deleted}
        self._purged = {key: done for key, done in self._purged.items() if key in known}
        for key, state in known.items():
            if not isinstance(state.log, EmbeddedLog):
                continue
            done = self._purged.setdefault(key, {})
            for segment, first in state.log.first.items():
                if first > done.get(segment, 0):
                    step = partial(self._drop_chunks, place=(key, segment), first=first)
                    if not await self._database.change(step):
                        done[segment] = first
                    return True
        return False

    def _drop_chunks(self, connection: Connection, place: tuple[int, int], first: int) -> bool:
        began = perf_counter()
        dropped = delete_truncated(connection, *place, first, self._pace.rows)
        if dropped:
            self._pace.adjust(began, fewest=_FEWEST_ROWS)
        return dropped

    def _step(self, connection: Connection) -> bool:
        began = perf_counter()
        purged = storage.purge(connection, metadata.sorted_tables, self._pace.rows)
        purged = purged or staging.clear_staged(connection, self._pace.rows)
        if purged:
            self._pace.adjust(began, fewest=_FEWEST_ROWS)
        return purged


def _is_anything_left(connection: Connection) -> bool:
    is_left = storage.has_deleted_streams(connection)
    return is_left or staging.has_finished_stagings(connection)
