"""One controller that holds everything: SQLite."""

import asyncio
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field

from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.groups import Groups
from controller.store import streams as storage
from controller.streams.lease import FileLock
from controller.streams.registry import Registry

_STAMPS_BETWEEN_IDLE_WRITES = 240
"""A minute of stamps: with no clock running, a crash loses that much of listening time."""


@dataclass(slots=True)
class SoleOwnership:
    """Everything there is, from start to end."""

    _registry: Registry
    _groups: Groups
    _sequencer: Sequencer
    _database: Database
    lease: FileLock = field(default_factory=FileLock)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: Sequence[asyncio.Task[None]] = ()
    _stamps: int = 0

    @property
    def streams(self) -> Sized:
        """The streams in memory."""
        return self._registry

    async def stored_listening(self) -> int:
        """Read the last stamp that was stored."""
        return await self._database.read(storage.read_listening)

    async def start(self) -> None:
        """Read everything back."""
        await self._registry.restore_all()
        await self._groups.restore_all()

    async def stop(self) -> None:
        """Store an exact stamp."""
        self._store(self._registry.clocks.listening.stamp())

    async def leave(self) -> None:
        """Do nothing: the database is closed."""

    async def new_stream_key(self) -> int | None:
        """Return nothing: the registry chooses the key."""
        return None

    def keep_stamp(self, stamp_ms: int) -> None:
        """Store it while any clock runs, and now and then."""
        self._stamps += 1
        # Nothing is ever read back next to these, so nobody asks what was removed meanwhile.
        self._registry.removed.clear()
        self._groups.removed.clear()
        if self._registry.ticking or self._stamps % _STAMPS_BETWEEN_IDLE_WRITES == 0:
            self._store(stamp_ms)

    def _store(self, stamp_ms: int) -> None:
        def decide(batch: Batch) -> None:
            batch.write_together(self._registry.clocks.write_stamps, stamp_ms)

        self._sequencer.submit_quietly(decide)
