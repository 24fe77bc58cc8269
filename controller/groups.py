"""Reader groups: their shared state, made durable, and who of their readers lives."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, insert, select, tuple_, update

from controller import history
from controller.moving import Moving
from controller.schema import reader_groups
from controller.sequencer import Batch
from controller.streams import Identity, StreamState
from tidegauge.errors import (
    GroupExistsError,
    InvalidPositionError,
    InvalidRequestError,
    LogIsExternalError,
    PreconditionFailedError,
    StreamReplacedError,
    UnavailableError,
    UnknownGroupError,
    UnknownStreamError,
)
from tidegauge.groups import GroupState, check_change, go_offline, start
from tidegauge.names import StreamName
from tidegauge.topology import Position, Topology
from tidegauge.wire.groups import CreateGroup, GroupInfo, StateDocument
from tidegauge.wire.values import Answer

if TYPE_CHECKING:
    from controller.service import Service

_log = logging.getLogger(__name__)


class GroupSettings(Answer):
    """What a group was created with, as it is stored."""

    streams: list[str]
    stream_ids: dict[str, str]
    heartbeat_ms: int
    dead_after_ms: int


@dataclass(slots=True, eq=False)
class Group:
    """One group in memory.

    Attributes
    ----------
    name
        Its scope and name.
    settings
        What it was created with.
    state
        The shared state.
    revision
        Of the shared state.
    heard
        Listening time at which each reader last said that it lives, ms.
    """

    name: StreamName
    settings: GroupSettings
    state: GroupState
    revision: int = 1
    heard: dict[str, int] = field(default_factory=dict)

    @property
    def etag(self) -> str:
        """The version of the shared state."""
        return f'"{self.revision}"'

    def describe(self) -> GroupInfo:
        """Describe it."""
        return GroupInfo(
            group=str(self.name),
            revision=self.revision,
            state=StateDocument.of(self.state),
            **self.settings.model_dump(),
        )


class Groups:
    """All reader groups.

    Parameters
    ----------
    service
        What they are part of.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._by_name: dict[StreamName, Group] = {}
        self._moving = Moving()
        self.removed: set[StreamName] = set()
        """Deleted since whoever is interested in them last cleared it."""

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_name.values())

    def add(self, group: Group) -> None:
        """Hold a group that was read back; its readers get the time to say that they live."""
        now = self._service.clocks.now().listening_ms
        group.heard = dict.fromkeys(group.state.readers, now)
        self._by_name[group.name] = group

    def release(self, group: Group) -> bool:
        """Hold a group no more; False if it is not held."""
        self._moving.add(group.name)
        return self._by_name.pop(group.name, None) is not None

    def forget(self) -> None:
        """Hold no group any more."""
        for group in list(self):
            self.release(group)

    def __contains__(self, name: StreamName) -> bool:
        return name in self._by_name

    def get(self, name: StreamName) -> Group:
        """Look a group up, or raise `UnknownGroupError`."""
        group = self._by_name.get(name)
        if group is None:
            self._moving.check(name)
            raise UnknownGroupError(str(name))
        return group

    def page(
        self, after: StreamName | None, limit: int, *, of: Callable[[str], object]
    ) -> list[Group]:
        """List groups in order of name, after one, of scopes that are wanted."""
        wanted = (
            name for name in self._by_name if (after is None or name > after) and of(name.scope)
        )
        return [self._by_name[name] for name in nsmallest(limit, wanted)]

    async def create(self, name: StreamName, wanted: CreateGroup) -> tuple[Group, bool]:
        """Create a group, or find it there with the same settings; tells whether it is new.

        Raises
        ------
        UnknownStreamError, LogIsExternalError
            If one of its streams cannot be read.
        InvalidRequestError, InvalidPositionError
            If it cannot start there.
        GroupExistsError
            If it is there with other settings.
        NameTooLongError, TooManyGroupsError
            If the service takes no more, or no such name.
        """
        _check_start(wanted)
        states = [await self._readable(stream) for stream in wanted.streams]
        settings = _settings_of(states, wanted)
        positions = {
            str(state.identity.name): await self._start(state, wanted) for state in states
        }
        topologies = await self.topologies(settings)

        def decide(batch: Batch) -> tuple[Group, bool]:
            if name in self._by_name:
                _check_same(self._by_name[name], settings)
                return self._by_name[name], False
            self._service.limits.check_new_group(name.scope, name.stream, self._by_name)
            group = Group(name, settings, start(topologies, positions))
            self._by_name[name] = group
            batch.on_failure(partial(self._take_back, name))
            batch.write(partial(_insert, group=group, holder=self._service.holding.controller))
            return group, True

        created: tuple[Group, bool] = await self._service.sequencer.submit(decide)
        return created

    def delete(self, name: StreamName, batch: Batch) -> None:
        """Delete a group, and with it what it retained."""
        group = self.get(name)
        del self._by_name[name]
        self.removed.add(name)
        batch.on_failure(partial(self._by_name.__setitem__, name, group))
        batch.write(partial(_delete, name=name))

    def change(
        self,
        name: StreamName,
        transition: Callable[[GroupState], GroupState],
        batch: Batch,
        *,
        topologies: dict[str, Topology],
        if_match: str | None = None,
    ) -> Group:
        """Change the shared state by a transition, checked by the laws of groups.

        ``topologies`` are those of the group's streams.

        Raises
        ------
        PreconditionFailedError
            If somebody was faster than ``if_match`` says.
        InvalidTransitionError, ReaderFencedError
            If the change breaks a law; nothing is stored then.
        """
        group = self.get(name)
        if if_match is not None and if_match != group.etag:
            raise PreconditionFailedError(group.etag)
        former = group.state, group.revision
        state = transition(group.state)
        check_change(group.state, state, topologies)
        group.state, group.revision = state, group.revision + 1
        now = self._service.clocks.now().listening_ms
        group.heard = {name: group.heard.get(name, now) for name in state.readers}
        batch.on_failure(partial(_set_back, group, *former))
        batch.write(
            partial(
                _update,
                name=name,
                revision=group.revision,
                text=StateDocument.of(state).model_dump_json(),
            )
        )
        return group

    def hear(self, name: StreamName, reader: str) -> None:
        """Note that a reader lives."""
        self.get(name).heard[reader] = self._service.clocks.now().listening_ms

    async def take_dead_offline(self) -> None:
        """Take readers offline that have been silent for too long."""
        now = self._service.clocks.now().listening_ms
        for group in list(self):
            for reader, heard in list(group.heard.items()):
                is_silent = now - heard > group.settings.dead_after_ms
                if is_silent and reader in group.state.readers:
                    await self._take_offline(group, reader)

    async def _take_offline(self, group: Group, reader: str) -> None:
        """Take a reader offline; where nothing is left to read, it learns so by its next call.

        While the database is away, this waits for the next look.
        """
        try:
            topologies = await self.topologies(group.settings)
        except (UnknownStreamError, StreamReplacedError, UnavailableError):
            return
        _log.warning("reader silent", extra={"group": str(group.name), "reader": reader})
        offline = partial(go_offline, reader=reader, topologies=topologies)
        self._service.submit_quietly(
            lambda batch: self.change(group.name, offline, batch, topologies=topologies)
        )

    async def topologies(self, settings: GroupSettings) -> dict[str, Topology]:
        """Look up the topologies of a group's streams.

        Raises
        ------
        UnknownStreamError, StreamReplacedError
            If one of them is not there any more.
        """
        found = {}
        for stream in settings.streams:
            state = await self._service.look_at(StreamName.parse(stream))
            state.check_id(settings.stream_ids[stream])
            found[stream] = state.published_topology
        return found

    def positions(self, stream: Identity) -> list[Position]:
        """List where the groups held here that read a stream stand, and may go back to."""
        return _positions(self, stream)

    async def positions_elsewhere(self, stream: Identity) -> list[Position]:
        """List the same of groups that other controllers hold, as they stand by now."""
        holder = self._service.holding.controller
        if holder is None:
            return []
        groups = await self._service.database.read(partial(read_groups, not_of=holder))
        return _positions(groups, stream)

    def _take_back(self, name: StreamName) -> None:
        del self._by_name[name]

    async def _readable(self, stream: str) -> StreamState:
        try:
            name = StreamName.parse(stream)
        except ValueError as error:
            raise InvalidRequestError.of("streams", str(error)) from error
        state = await self._service.look_at(name)
        if state.published_tails is None:
            raise LogIsExternalError(stream)
        return state

    async def _start(self, state: StreamState, wanted: CreateGroup) -> Position:
        if wanted.start_cut is not None:
            cut = wanted.start_cut.get(str(state.identity.name), {})
            _check_cut(cut, state.published_tails or {})
            return cut
        if wanted.start_time is not None:
            position, _ = await history.start_of(self._service, state, wanted.start_time)
            return position or {}
        return dict(state.published_tails or {}) if wanted.start == "latest" else {}


def _settings_of(states: Iterable[StreamState], wanted: CreateGroup) -> GroupSettings:
    ids = {str(state.identity.name): state.identity.stream_id for state in states}
    return GroupSettings(
        streams=sorted(ids),
        stream_ids=ids,
        heartbeat_ms=wanted.heartbeat_ms,
        dead_after_ms=wanted.dead_after_ms,
    )


def _positions(groups: Iterable[Group], stream: Identity) -> list[Position]:
    name = str(stream.name)
    return [
        position
        for group in groups
        if group.settings.stream_ids.get(name) == stream.stream_id
        for position in group.state.resumable(name)
    ]


def _check_start(wanted: CreateGroup) -> None:
    ways = ("start", "start_time", "start_cut")
    sent = wanted.model_dump(exclude_unset=True, exclude_none=True)
    given = [one for one in ways if one in sent]
    if len(given) > 1:
        message = f"send only one of {', '.join(given)}"
        raise InvalidRequestError.of(given[-1], message)
    others = sorted((wanted.start_cut or {}).keys() - set(wanted.streams))
    if others:
        message = f"{others[0]!r} is none of the group's streams"
        raise InvalidRequestError.of("start_cut", message)


def _check_cut(cut: Position, tails: Position) -> None:
    for number, offset in cut.items():
        if not 0 <= offset <= tails.get(number, -1):
            reason = f"the stream has the segments and tails {dict(tails)}"
            raise InvalidPositionError(number, offset, reason, tails)


def _check_same(group: Group, wanted: GroupSettings) -> None:
    stored, given = group.settings.model_dump(), wanted.model_dump()
    differences = {
        name: {"stored": stored[name], "given": value}
        for name, value in given.items()
        if value != stored[name]
    }
    if differences:
        raise GroupExistsError(str(group.name), differences)


def _set_back(group: Group, state: GroupState, revision: int) -> None:
    group.state, group.revision = state, revision


def read_groups(
    connection: Connection,
    *,
    holder: int | None = None,
    not_of: int | None = None,
    named: Sequence[StreamName] | None = None,
) -> list[Group]:
    """Read all groups, or those of a holder, that one does not hold, or with certain names."""
    query = select(reader_groups)
    if holder is not None:
        query = query.where(reader_groups.c.holder == holder)
    if not_of is not None:
        query = query.where(reader_groups.c.holder.is_distinct_from(not_of))
    if named is not None:
        name = tuple_(reader_groups.c.scope, reader_groups.c.reader_group)
        query = query.where(name.in_([(one.scope, one.stream) for one in named]))
    return [
        Group(
            StreamName(row.scope, row.reader_group),
            GroupSettings.model_validate_json(row.settings),
            StateDocument.model_validate_json(row.state).to_state(),
            row.revision,
        )
        for row in connection.execute(query)
    ]


def _insert(connection: Connection, group: Group, holder: int | None) -> None:
    connection.execute(
        insert(reader_groups).values(
            scope=group.name.scope,
            reader_group=group.name.stream,
            settings=group.settings.model_dump_json(),
            revision=group.revision,
            state=StateDocument.of(group.state).model_dump_json(),
            holder=holder,
        )
    )


def _update(connection: Connection, name: StreamName, revision: int, text: str) -> None:
    connection.execute(
        update(reader_groups).where(*_is(name)).values(revision=revision, state=text)
    )


def _delete(connection: Connection, name: StreamName) -> None:
    connection.execute(delete(reader_groups).where(*_is(name)))


def _is(name: StreamName) -> tuple[Any, Any]:
    return reader_groups.c.scope == name.scope, reader_groups.c.reader_group == name.stream
