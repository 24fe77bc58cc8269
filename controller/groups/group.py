"""A reader group in memory: it mirrors its row and takes part in batches."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from sqlalchemy import Connection

from controller.commit.batch import Batch
from controller.store import groups as storage
from controller.store.groups import GroupSettings, StoredGroup
from tidegauge.groups import GroupState
from tidegauge.names import StreamName


class GroupHost(Protocol):
    """What a group uses of the controller that holds it; `Groups` is one."""

    @property
    def holder(self) -> int | None:
        """Who holds it; None if there is one controller."""

    def remove(self, group: "Group") -> None:
        """Drop a group whose deletion is durable."""

    def release(self, group: "Group") -> None:
        """Leave a group to another controller."""

    async def reload(self, group: "Group") -> None:
        """Read a group back after a failed commit."""


class Group:
    """One group in memory.

    The race: another controller stores one of the same name first. Then a new one is left to that
    controller, as if it had moved there; whoever shares the transaction is not concerned.

    Parameters
    ----------
    newest
        What is decided of it.
    host
        The controller that holds it.

    Attributes
    ----------
    newest
        What is decided of it; between two batches, what is on disk.
    heard
        Listening time at which each reader last said that it lives, ms.
    deleted
        Whether its deletion is decided.
    moved
        Whether another controller answers for it.
    """

    def __init__(self, newest: StoredGroup, host: GroupHost) -> None:
        self.newest = newest
        self.heard: dict[str, int] = {}
        self.deleted = False
        self.moved = False
        self._host = host
        self._on_disk: StoredGroup | None = None
        self._is_stored: Callable[[], bool]

    @property
    def name(self) -> StreamName:
        """Its scope and name."""
        return self.newest.name

    @property
    def settings(self) -> GroupSettings:
        """What it was created with."""
        return self.newest.settings

    @property
    def state(self) -> GroupState:
        """The shared state."""
        return self.newest.state

    @property
    def durable(self) -> bool:
        """Whether it is stored."""
        return self._on_disk is not None

    def become(self, stored: StoredGroup, now_ms: int) -> None:
        """Take over what was read back from disk."""
        self.deleted = False
        self._on_disk = stored
        self.change(stored, now_ms)

    def change(self, newest: StoredGroup, now_ms: int) -> None:
        """Decide the next revision; new readers have the time to say that they live.

        So has a process that took a name over: its predecessor's silence is not its own.
        """
        former = self.newest.state
        self.newest = newest
        self.heard = {
            name: now_ms if reader.epoch > former.epochs else self.heard.get(name, now_ms)
            for name, reader in newest.state.readers.items()
        }

    def before_commit(self, batch: Batch) -> None:
        """Add what became of it."""
        if self.deleted:
            batch.write(partial(storage.delete_group, name=self.name))
        elif self._on_disk is None:
            batch.write(partial(self._insert, group=self.newest, holder=self._host.holder))
        elif self._on_disk is not self.newest:
            batch.write(partial(storage.update_group, group=self.newest))

    def after_commit(self) -> None:
        """Be there, or be gone."""
        if self.deleted:
            self._host.remove(self)
        elif self._on_disk is None and not self._is_stored():
            self._host.release(self)
        else:
            self._on_disk = self.newest

    async def reload(self) -> None:
        """Become what the disk says."""
        if not self.moved:
            await self._host.reload(self)

    def _insert(self, connection: Connection, group: StoredGroup, holder: int | None) -> None:
        self._is_stored = storage.insert_group(connection, group, holder)
