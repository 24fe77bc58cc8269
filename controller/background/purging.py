"""Removing what belonged to deleted streams in the background, a few rows at a time.

A stream that is deleted is gone at once, with its name: only its key is kept, in a table of its
own, until all of its rows are removed. So deleting millions of marks or chunks holds nobody up,
and goes on after a restart.
"""

import asyncio
import logging
from time import perf_counter
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from controller.logs.deduplication import LogOnce
from controller.schema import metadata
from controller.store import streams as storage
from tidegauge.errors import TidegaugeError

if TYPE_CHECKING:
    from controller.service import Service

_log = logging.getLogger(__name__)
_PERIOD_S = 1.0
_FEWEST_ROWS = 4
_TRANSACTION_S = 0.005
"""Aimed at, for what grows with the rows."""


class Purger:
    """Removes the rows of deleted streams.

    Parameters
    ----------
    service
        In whose database they are.
    most_rows
        To remove in one step; fewer where the disk is slow, or rows are long.
    rest
        After each step, in times of what it took.
    """

    def __init__(self, service: "Service", *, most_rows: int = 500, rest: float = 9.0) -> None:
        self._service = service
        self._most_rows, self._rest = most_rows, rest
        self._rows = _FEWEST_ROWS
        self._not_removed = LogOnce(_log)

    async def run(self) -> None:
        """Remove rows until cancelled, with a rest after each step."""
        while True:
            begun = perf_counter()
            if await self._purge_some():
                await asyncio.sleep(self._rest * (perf_counter() - begun))
            else:
                await asyncio.sleep(_PERIOD_S)

    async def _purge_some(self) -> bool:
        """Make one step; False if there was none to make, or it could not be made now."""
        if not self._service.ownership.is_certain:
            return False
        try:
            left = await self._service.database.read(storage.has_deleted_streams)
            purged = left and await self._service.database.change(self._step)
        except TidegaugeError as error:
            self._not_removed.tell(f"rows of deleted streams were not removed: {error}")
            return False
        self._not_removed.end()
        return purged

    def _step(self, connection: Connection) -> bool:
        found = storage.find_leftover(connection, metadata.sorted_tables, self._rows)
        if found is None:
            return False
        begun = perf_counter()
        storage.purge(connection, found)
        slow = perf_counter() - begun > _TRANSACTION_S
        rows = self._rows // 2 if slow else self._rows * 2
        self._rows = min(self._most_rows, max(_FEWEST_ROWS, rows))
        return True
