"""The reader groups in memory: changed by the laws of groups, deleted."""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import nsmallest

from controller.access.limits import Limits
from controller.clocks import Clocks
from controller.commit.batch import Batch
from controller.database import Database
from controller.groups.group import Group
from controller.groups.logs import Logs
from controller.store import groups as storage
from controller.store.groups import GroupSettings, StoredGroup
from controller.streams.lease import Lease
from controller.streams.relocation import Relocations
from tidegauge.errors import GroupExistsError, PreconditionFailedError, UnknownGroupError
from tidegauge.groups import GroupState, check_change, check_reach, new_names
from tidegauge.names import StreamName


class Groups:
    """All reader groups that this controller holds.

    Parameters
    ----------
    database
        Where they are read back from.
    clocks
        Tell who of their readers lives.
    limits
        Of what the service takes.
    lease
        Under which they are held.

    Attributes
    ----------
    relocations
        Groups that moved to another controller a moment ago.
    removed
        Deleted since whoever is interested in them last cleared it.
    """

    def __init__(
        self, database: Database, clocks: Clocks, limits: Limits, lease: Lease
    ) -> None:
        self.relocations = Relocations()
        self.removed: set[StreamName] = set()
        self._database = database
        self._clocks = clocks
        self._limits = limits
        self._lease = lease
        self._by_name: dict[StreamName, Group] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_name.values())

    def __contains__(self, name: StreamName) -> bool:
        return name in self._by_name

    @property
    def holder(self) -> int | None:
        """Who holds them; None if there is one controller."""
        return self._lease.controller

    def add(self, stored: StoredGroup) -> None:
        """Hold a group that was read back; its readers get the time to say that they live."""
        group = Group(stored, self)
        group.become(stored, self._now_ms())
        self._by_name[group.name] = group

    def remove(self, group: Group) -> None:
        """Hold a group no more that is deleted."""
        if self._by_name.get(group.name) is group:
            del self._by_name[group.name]
        self.removed.add(group.name)

    def release(self, group: Group) -> None:
        """Answer for a group no more: another controller does."""
        group.moved = True
        self.relocations.add(group.name)
        self._by_name.pop(group.name, None)

    async def restore_all(self) -> None:
        """Hold every group there is."""
        for stored in await self._database.read(storage.read_groups):
            self.add(stored)

    def forget(self) -> None:
        """Hold no group any more."""
        for group in list(self):
            self.release(group)

    async def reload(self, group: Group) -> None:
        """Make a group what the disk says, where it may be gone."""
        read = partial(storage.read_groups, named=[group.name])
        stored = await self._database.read(read, patient=True)
        if stored:
            group.become(stored[0], self._now_ms())
            self._by_name[group.name] = group
        else:
            group.deleted = True
            self.remove(group)

    def get(self, name: StreamName) -> Group:
        """Look a durable group up, or raise `UnknownGroupError`.

        Raises
        ------
        MovedError
            If it moved to another controller a moment ago.
        """
        group = self._by_name.get(name)
        if group is None or not group.durable:
            self.relocations.check(name)
            raise UnknownGroupError(str(name))
        return group

    def page(
        self, after: StreamName | None, limit: int, *, of: Callable[[str], object]
    ) -> list[StoredGroup]:
        """List groups in order of name, after one, of the scopes that ``of`` accepts."""
        names = (
            name for name in self._by_name if (after is None or name > after) and of(name.scope)
        )
        return [self._by_name[name].newest for name in nsmallest(limit, names)]

    def find_or_add(
        self, new: StoredGroup, stored: int, batch: Batch
    ) -> tuple[Group, StoredGroup, bool]:
        """Add a group, if there is none of its name; so many were stored a moment ago.

        Tells, besides the group, what is decided of it, and whether it is new.
        """
        existing = self._by_name.get(new.name)
        if existing is not None and not existing.deleted:
            _check_same(existing.newest, new.settings)
            return existing, existing.newest, False
        known = range(max(stored, len(self._by_name)))
        self._limits.check_new_group(new.name.scope, new.name.stream, known)
        group = self._by_name[new.name] = Group(new, self)
        batch.touch(group)
        return group, new, True

    def delete(self, name: StreamName, batch: Batch) -> None:
        """Delete a group, and with it what it retained."""
        group = self._decided(name)
        group.deleted = True
        batch.touch(group)

    def change(
        self,
        name: StreamName,
        transition: Callable[[GroupState], GroupState],
        batch: Batch,
        *,
        logs: Logs,
        if_match: str | None = None,
    ) -> StoredGroup:
        """Change the shared state by a transition, checked by the laws of groups.

        ``logs`` are those of the group's streams, looked up since the change was asked for.

        Raises
        ------
        PreconditionFailedError
            If somebody was faster than ``if_match`` says.
        NameTooLongError
            If the service takes no such name of a new reader or checkpoint.
        InvalidTransitionError, InvalidPositionError, ReaderFencedError
            If the change breaks a law; nothing is stored then.
        """
        group = self._decided(name)
        former = group.newest
        if if_match is not None and if_match != former.etag:
            raise PreconditionFailedError(former.etag)
        state = transition(former.state)
        self._limits.check_names(*new_names(former.state, state))
        check_change(former.state, state, logs.topologies)
        check_reach(former.state, state, logs.tails)
        group.change(former.after(state), self._now_ms())
        batch.touch(group)
        return group.newest

    def hear(self, name: StreamName, reader: str) -> None:
        """Note that a reader lives."""
        self.get(name).heard[reader] = self._now_ms()

    def _decided(self, name: StreamName) -> Group:
        """Look a group up as the changes before in the same batch have left it."""
        group = self._by_name.get(name)
        if group is None or group.deleted:
            self.relocations.check(name)
            raise UnknownGroupError(str(name))
        return group

    def _now_ms(self) -> int:
        return self._clocks.now().listening_ms


def _check_same(stored: StoredGroup, settings: GroupSettings) -> None:
    """Refuse to create a group that is there with other settings."""
    before, requested = stored.settings.model_dump(), settings.model_dump()
    differences = {
        name: {"stored": before[name], "given": value}
        for name, value in requested.items()
        if value != before[name]
    }
    if differences:
        raise GroupExistsError(str(stored.name), differences)
