"""One controller that holds everything: SQLite."""

import asyncio
from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from controller.cluster.ownership import Ownership
from controller.commit.batch import Batch
from controller.groups import read_groups
from controller.store import streams as storage
from controller.store.changelog import SharedLog
from controller.streams.stream import restore_all

if TYPE_CHECKING:
    from controller.service import Service

_STAMPS_BETWEEN_IDLE_WRITES = 240


class SoleOwnership(Ownership):
    """Everything there is, from start to end.

    Parameters
    ----------
    service
        Whose streams and groups they are.
    """

    change_store: SharedLog

    def __init__(self, service: "Service") -> None:
        super().__init__()
        self._service = service
        self._stamps = 0
        self.tasks: list[asyncio.Task[None]] = []
        self.change_store = SharedLog(service.database, self._compact)

    @property
    def controller(self) -> None:
        """There cannot be another."""
        return

    @property
    def is_certain(self) -> bool:
        """Always: the file is locked."""
        return True

    @property
    def streams(self) -> Sized:
        """Those in memory."""
        return self._service.registry

    async def stored_listening(self) -> int:
        """Read the last stamp that was stored."""
        return await self._service.database.read(storage.read_listening)

    async def start(self) -> None:
        """Read everything back."""
        service = self._service
        await self.change_store.read_back()
        await restore_all(service.database, service.registry, service.context)
        for group in await service.database.read(read_groups):
            service.groups.add(group)

    async def stop(self) -> None:
        """Store an exact stamp."""
        self._store(self._service.clocks.listening.stamp())

    async def leave(self) -> None:
        """Do nothing: the database is closed."""

    async def new_stream_key(self) -> int | None:
        """Leave it to the registry."""
        return None

    def keep_stamp(self, stamp_ms: int) -> None:
        """Store it while any clock runs, and now and then."""
        self._stamps += 1
        # Nothing is ever read back next to these, so nobody asks what was removed meanwhile.
        self._service.registry.removed.clear()
        self._service.groups.removed.clear()
        if self._service.registry.ticking or self._stamps % _STAMPS_BETWEEN_IDLE_WRITES == 0:
            self._store(stamp_ms)

    def write_stamps(self, connection: Connection, stamps: Sequence[int]) -> None:
        """Store the last stamp of listening time."""
        storage.write_stamps(connection, stamps)

    def _compact(self, keys: Sequence[int]) -> None:
        """Have streams compacted that keep the oldest rows of the changelog."""
        by_key = {state.identity.key: state for state in self._service.registry}
        for key in keys:
            if key in by_key:
                by_key[key].compact()

    def _store(self, stamp: int) -> None:
        def decide(batch: Batch) -> None:
            batch.write_together(self.write_stamps, stamp)

        self._service.submit_quietly(decide)
