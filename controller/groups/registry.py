"""The reader groups in memory: changed by the laws of groups, mirrored in rows, deleted."""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import nsmallest
from typing import NamedTuple

from controller.access.limits import Limits
from controller.clocks import Clocks
from controller.commit.batch import Batch
from controller.database import Database
from controller.store import groups as storage
from controller.store.groups import GroupSettings, StoredGroup
from controller.streams.registry import Registry
from tidegauge.errors import GroupExistsError, PreconditionFailedError, UnknownGroupError
from tidegauge.groups import GroupState, check_change, check_reach, has_read_on, new_names
from tidegauge.names import StreamName
from tidegauge.topology import Position, Topology
from tidegauge.wire.groups import GroupProgress, NotedProgress, ReaderInfo

PROGRESS_KEPT_MS = 300_000
"""What a query reported of itself is forgotten then, so that one sees that it reports no more."""


class Logs(NamedTuple):
    """What a group can read."""

    topologies: dict[str, Topology]
    tails: dict[str, Position]
    """Of streams with an embedded log."""


def read_logs(registry: Registry, settings: GroupSettings) -> Logs:
    """Return how long the logs of a group's streams are, all of which must be there still."""
    logs = Logs({}, {})
    for stream in settings.streams:
        state = registry.get(StreamName.parse(stream))
        state.check_id(settings.stream_ids[stream])
        logs.topologies[stream] = state.published.topology
        if state.published.tails is not None:
            logs.tails[stream] = state.published.tails
    return logs


class Group:
    """One group in memory."""

    def __init__(self, newest: StoredGroup, host: "Groups") -> None:
        self.newest = newest
        """What is decided of it; between two batches, what is on disk."""
        self.heard: dict[str, int] = {}
        """Listening time at which each reader last said that it lives, ms."""
        self.advanced: dict[str, int] = {}
        """Listening time at which each reader last read on, ms; of those that did."""
        self.progress: tuple[GroupProgress, int] | None = None
        """What its query last reported of itself, and when, in listening time, ms."""
        self.deleted = False
        """Whether its deletion is decided."""
        self._host = host
        self._frontiers: dict[str, tuple[GroupState, Topology, Position]] = {}
        self._on_disk: StoredGroup | None = None

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

    def frontier(self, stream: str, topology: Topology) -> Position:
        """Return where it is in a stream; see `GroupState.frontier`.

        Kept until it is elsewhere: a state has an entry for each segment there ever was.
        """
        state, known = self.state, self._frontiers.get(stream)
        if known is None or known[0] is not state or known[1] is not topology:
            known = state, topology, state.frontier(stream, topology)
            self._frontiers[stream] = known
        return known[2]

    def become(self, stored: StoredGroup, now_ms: int) -> None:
        """Replace everything by what was read back from disk."""
        self.deleted = False
        self._on_disk = stored
        self.change(stored, now_ms)

    def change(self, newest: StoredGroup, now_ms: int) -> None:
        """Decide the next revision; new readers have the time to say that they live.

        So has a process that took a name over: its predecessor's silence is not its own.
        """
        former = self.newest.state
        self.newest = newest
        readers = newest.state.readers
        self.advanced = {
            name: at
            for name, at in self.advanced.items()
            if _is_same(former, newest.state, name)
        } | {name: now_ms for name in readers if has_read_on(former, newest.state, name)}
        self.heard = {
            name: now_ms if reader.epoch > former.epochs else self.heard.get(name, now_ms)
            for name, reader in readers.items()
        }

    def before_commit(self, batch: Batch) -> None:
        """Add what became of it."""
        if self.deleted:
            batch.write(partial(storage.delete_group, name=self.name))
        elif self._on_disk is None:
            batch.write(partial(storage.insert_group, group=self.newest))
        elif self._on_disk is not self.newest:
            batch.write(partial(storage.update_group, group=self.newest))

    def after_commit(self) -> None:
        """Publish the group, or remove it."""
        if self.deleted:
            self._host.remove(self)
        else:
            self._on_disk = self.newest

    async def reload(self) -> None:
        """Read the group back from disk."""
        await self._host.reload(self)


class Groups:
    """All reader groups that this controller holds."""

    def __init__(self, database: Database, clocks: Clocks, limits: Limits) -> None:
        self._database = database
        self._clocks = clocks
        self._limits = limits
        self._by_name: dict[StreamName, Group] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_name.values())

    def __contains__(self, name: StreamName) -> bool:
        return name in self._by_name

    def add(self, stored: StoredGroup) -> None:
        """Add a group that was read back; its readers get the time to send a heartbeat."""
        group = Group(stored, self)
        group.become(stored, self._now_ms())
        self._by_name[group.name] = group

    def remove(self, group: Group) -> None:
        """Remove a group that is deleted."""
        if self._by_name.get(group.name) is group:
            del self._by_name[group.name]

    async def restore_all(self) -> None:
        """Add every group there is."""
        for stored in await self._database.read(storage.read_groups):
            self.add(stored)

    async def reload(self, group: Group) -> None:
        """Make a group what the disk says, where it may be gone."""
        read = partial(storage.read_groups, named=group.name)
        stored = await self._database.read(read, patient=True)
        if stored:
            group.become(stored[0], self._now_ms())
            self._by_name[group.name] = group
        else:
            group.deleted = True
            self.remove(group)

    def find(self, name: StreamName) -> Group | None:
        """Return a group that this controller may hold."""
        return self._by_name.get(name)

    def get(self, name: StreamName) -> Group:
        """Return a durable group."""
        group = self._by_name.get(name)
        if group is None or not group.durable:
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

    def find_or_add(self, new: StoredGroup, batch: Batch) -> tuple[StoredGroup, bool]:
        """Add a group, if there is none of its name; return what is decided of it, and whether it is new."""
        existing = self._by_name.get(new.name)
        if existing is not None and not existing.deleted:
            _check_same(existing.newest, new.settings)
            return existing.newest, False
        self._limits.check_new_group(new.name.scope, new.name.stream, self._by_name)
        group = self._by_name[new.name] = Group(new, self)
        batch.touch(group)
        return new, True

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

        ``logs`` are those of the group's streams, read since the change was asked for. It
        is refused if it breaks a law, or somebody was faster than ``if_match`` says.
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
        """Record that a reader lives."""
        self.get(name).heard[reader] = self._now_ms()

    def readers_of(self, group: Group) -> list[ReaderInfo]:
        """Return how long ago each reader of a group was heard, and read on."""
        now_ms = self._now_ms()

        def since(stamp_ms: int | None) -> int | None:
            return None if stamp_ms is None else max(0, now_ms - stamp_ms)

        return [
            ReaderInfo(
                reader=name,
                epoch=reader.epoch,
                segments=len(reader.owned),
                silent_ms=since(group.heard.get(name)) or 0,
                advanced_ms=since(group.advanced.get(name)),
            )
            for name, reader in sorted(group.state.readers.items())
        ]

    def note_progress(self, name: StreamName, progress: GroupProgress) -> None:
        """Record what the query of a group reports of itself.

        It is kept in memory only: where a controller starts anew, the next batch reports it again.
        """
        self.get(name).progress = progress, self._now_ms()

    def progress_of(self, group: Group) -> NotedProgress | None:
        """Return what the query of a group last reported; None if that was too long ago."""
        if group.progress is None:
            return None
        progress, noted_ms = group.progress
        silent_ms = self._now_ms() - noted_ms
        if silent_ms >= PROGRESS_KEPT_MS:
            return None
        return NotedProgress(**progress.model_dump(), silent_ms=silent_ms)

    def _decided(self, name: StreamName) -> Group:
        """Return a group as earlier changes of the same batch have left it."""
        group = self._by_name.get(name)
        if group is None or group.deleted:
            raise UnknownGroupError(str(name))
        return group

    def _now_ms(self) -> int:
        return self._clocks.now().listening_ms


def _is_same(before: GroupState, after: GroupState, reader: str) -> bool:
    """Return whether a reader is there as before, and the same process has its name."""
    was, now = before.readers.get(reader), after.readers.get(reader)
    return was is not None and now is not None and was.epoch == now.epoch


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
