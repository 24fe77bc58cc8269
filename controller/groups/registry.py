"""The reader groups in memory: made, changed by the laws of groups, deleted."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

from controller.commit.batch import Batch
from controller.groups.group import Group
from controller.groups.starting import check_same, check_start, settings_of, start_in
from controller.store import groups as storage
from controller.store.groups import GroupSettings, StoredGroup
from controller.streams.relocation import MovedError, Relocations
from controller.streams.stream import StreamState
from tidegauge.errors import (
    InvalidRequestError,
    PreconditionFailedError,
    StreamReplacedError,
    UnavailableError,
    UnknownGroupError,
    UnknownStreamError,
)
from tidegauge.groups import (
    GroupState,
    check_change,
    check_reach,
    go_offline,
    new_names,
    start,
)
from tidegauge.names import StreamName
from tidegauge.topology import Position, Topology
from tidegauge.wire.groups import CreateGroup

if TYPE_CHECKING:
    from controller.service import Service

_log = logging.getLogger(__name__)


class Logs(NamedTuple):
    """What a group can read.

    Attributes
    ----------
    topologies
        By stream.
    tails
        Of streams with an embedded log.
    """

    topologies: dict[str, Topology]
    tails: dict[str, Position]


class Groups:
    """All reader groups that this controller holds.

    Parameters
    ----------
    service
        What they are part of.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._by_name: dict[StreamName, Group] = {}
        self.relocations = Relocations()
        self.removed: set[StreamName] = set()
        """Deleted since whoever is interested in them last cleared it."""

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_name.values())

    def __contains__(self, name: StreamName) -> bool:
        return name in self._by_name

    @property
    def holder(self) -> int | None:
        """Who holds them; None if there is one controller."""
        return self._service.ownership.controller

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

    def forget(self) -> None:
        """Hold no group any more."""
        for group in list(self):
            self.release(group)

    async def reload(self, group: Group) -> None:
        """Make a group what the disk says, where it may be gone."""
        read = partial(storage.read_groups, named=[group.name])
        found = await self._service.database.read(read, patient=True)
        if found:
            group.become(found[0], self._now_ms())
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
        """List groups in order of name, after one, of scopes that are wanted."""
        wanted = (
            name for name in self._by_name if (after is None or name > after) and of(name.scope)
        )
        return [self._by_name[name].newest for name in nsmallest(limit, wanted)]

    async def create(self, name: StreamName, wanted: CreateGroup) -> tuple[StoredGroup, bool]:
        """Create a group, or find it there with the same settings; tells whether it is new.

        Raises
        ------
        UnknownStreamError
            If one of its streams is not there.
        InvalidRequestError, InvalidPositionError
            If it cannot start there.
        GroupExistsError
            If it is there with other settings.
        NameTooLongError, TooManyGroupsError
            If the service takes no more, or no such name.
        MovedError
            If another controller was faster.
        """
        check_start(wanted)
        states = [await self._readable(stream) for stream in wanted.streams]
        settings = settings_of(states, wanted)
        positions = {
            str(state.identity.name): await start_in(self._service, state, wanted)
            for state in states
        }
        logs = await self.logs(settings)
        new = StoredGroup(name, settings, start(logs.topologies, positions))
        stored = await self._service.database.read(storage.count_groups)
        group, found, is_new = await self._service.sequencer.submit(
            partial(self._find_or_add, new, stored)
        )
        if group.moved and not group.durable:
            raise MovedError(name)
        return found, is_new

    def _find_or_add(
        self, new: StoredGroup, stored: int, batch: Batch
    ) -> tuple[Group, StoredGroup, bool]:
        """Add a group, if there is none of its name; so many were stored a moment ago."""
        existing = self._by_name.get(new.name)
        if existing is not None and not existing.deleted:
            check_same(existing.newest, new.settings)
            return existing, existing.newest, False
        known = range(max(stored, len(self._by_name)))
        self._service.limits.check_new_group(new.name.scope, new.name.stream, known)
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
        self._service.limits.check_names(*new_names(former.state, state))
        check_change(former.state, state, logs.topologies)
        check_reach(former.state, state, logs.tails)
        group.change(former.after(state), self._now_ms())
        batch.touch(group)
        return group.newest

    def hear(self, name: StreamName, reader: str) -> None:
        """Note that a reader lives."""
        self.get(name).heard[reader] = self._now_ms()

    async def take_dead_offline(self) -> None:
        """Take readers offline that have been silent for too long."""
        now = self._now_ms()
        for group in list(self):
            for reader, heard in list(group.heard.items()):
                is_silent = now - heard > group.settings.dead_after_ms
                if is_silent and (member := group.state.readers.get(reader)) is not None:
                    await self._take_offline(group, reader, member.epoch)

    async def _take_offline(self, group: Group, reader: str, epoch: int) -> None:
        """Take a reader offline; where nothing is left to read, it learns so by its next call.

        While the database is away, this waits for the next look.
        """
        try:
            logs = await self.logs(group.settings)
        except (UnknownStreamError, StreamReplacedError, UnavailableError):
            return
        _log.warning("reader silent", extra={"group": str(group.name), "reader": reader})
        # Who takes the name over meanwhile stays: its epoch is another one.
        offline = partial(go_offline, reader=reader, epoch=epoch, topologies=logs.topologies)
        self._service.submit_quietly(
            lambda batch: self.change(group.name, offline, batch, logs=logs)
        )

    async def logs(self, settings: GroupSettings) -> Logs:
        """Look up how long the logs of a group's streams are.

        Raises
        ------
        UnknownStreamError, StreamReplacedError
            If one of them is not there any more.
        """
        found = Logs({}, {})
        for stream in settings.streams:
            state = await self._service.look_at(StreamName.parse(stream))
            state.check_id(settings.stream_ids[stream])
            found.topologies[stream] = state.published_topology
            if state.published_tails is not None:
                found.tails[stream] = state.published_tails
        return found

    def _decided(self, name: StreamName) -> Group:
        """Look a group up as the changes before in the same batch have left it."""
        group = self._by_name.get(name)
        if group is None or group.deleted:
            self.relocations.check(name)
            raise UnknownGroupError(str(name))
        return group

    async def _readable(self, stream: str) -> StreamState:
        try:
            name = StreamName.parse(stream)
        except ValueError as error:
            raise InvalidRequestError.of("streams", str(error)) from error
        return await self._service.look_at(name)

    def _now_ms(self) -> int:
        return self._service.clocks.now().listening_ms
