"""How reader groups are created: what with, and where they start."""

from collections.abc import Iterable
from functools import partial

from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.groups.logs import read_logs
from controller.groups.registry import Groups
from controller.store import groups as storage
from controller.store.groups import GroupSettings, StoredGroup
from controller.streams import history
from controller.streams.registry import Registry
from controller.streams.relocation import MovedError
from controller.streams.stream import StreamState
from tidegauge.errors import InvalidPositionError, InvalidRequestError
from tidegauge.groups import start
from tidegauge.names import StreamName
from tidegauge.topology import Position
from tidegauge.wire.groups import CreateGroup


class GroupCreation:
    """Creates reader groups.

    Parameters
    ----------
    groups
        Those of this controller.
    registry
        Knows the streams that they read.
    sequencer
        Makes them durable.
    database
        Knows how many there are, whoever holds them.
    """

    def __init__(
        self, groups: Groups, registry: Registry, sequencer: Sequencer, database: Database
    ) -> None:
        self._groups = groups
        self._registry = registry
        self._sequencer = sequencer
        self._database = database

    async def create(self, name: StreamName, request: CreateGroup) -> tuple[StoredGroup, bool]:
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
        _check_start(request)
        states = [await self._look_at(stream) for stream in request.streams]
        settings = _settings_of(states, request)
        positions = {
            str(state.identity.name): await _start_in(self._database, state, request)
            for state in states
        }
        logs = await read_logs(self._registry, settings)
        new = StoredGroup(name, settings, start(logs.topologies, positions))
        count = await self._database.read(storage.count_groups)
        group, stored, is_new = await self._sequencer.submit(
            partial(self._groups.find_or_add, new, count)
        )
        if group.moved and not group.durable:
            raise MovedError(name)
        return stored, is_new

    async def _look_at(self, stream: str) -> StreamState:
        try:
            name = StreamName.parse(stream)
        except ValueError as error:
            raise InvalidRequestError.of("streams", str(error)) from error
        return await self._registry.look_at(name)


def _check_start(request: CreateGroup) -> None:
    """Refuse a group that should start in two ways, or in streams that it does not read."""
    ways = ("start", "start_time", "start_cut")
    sent = request.model_dump(exclude_unset=True, exclude_none=True)
    starts = [way for way in ways if way in sent]
    if len(starts) > 1:
        message = f"send only one of {', '.join(starts)}"
        raise InvalidRequestError.of(starts[-1], message)
    others = sorted((request.start_cut or {}).keys() - set(request.streams))
    if others:
        message = f"{others[0]!r} is none of the group's streams"
        raise InvalidRequestError.of("start_cut", message)


def _settings_of(states: Iterable[StreamState], request: CreateGroup) -> GroupSettings:
    """Name what a group is stored with."""
    ids = {str(state.identity.name): state.identity.stream_id for state in states}
    return GroupSettings(
        streams=sorted(ids),
        stream_ids=ids,
        heartbeat_ms=request.heartbeat_ms,
        dead_after_ms=request.dead_after_ms,
    )


async def _start_in(database: Database, state: StreamState, request: CreateGroup) -> Position:
    """Find where a group starts in one of its streams.

    Raises
    ------
    InvalidPositionError
        If the stream is not where it should start.
    InvalidRequestError
        If it should start at the end of an external log.
    """
    if request.start_cut is not None:
        cut = request.start_cut.get(str(state.identity.name), {})
        _check_cut(cut, state)
        return cut
    if request.start_time is not None:
        position, _ = await history.start_of(database, state, request.start_time)
        return position or {}
    if request.start != "latest":
        return {}
    if state.published_tails is None:
        message = "only you know where an external log ends; send start_cut, or a start_time"
        raise InvalidRequestError.of("start", message)
    return dict(state.published_tails)


def _check_cut(cut: Position, state: StreamState) -> None:
    """Refuse a cut outside the stream; an external log has an end only once it is sealed."""
    tails = state.published_tails or {}
    segments = state.published_topology.segments
    for number, offset in cut.items():
        if number not in segments:
            reason = f"the stream has the segments {sorted(segments)}"
            raise InvalidPositionError(number, offset, reason, tails)
        end = tails.get(number, segments[number].sealed_length)
        if offset < 0 or (end is not None and offset > end):
            reason = (
                "offsets are 0 or more" if end is None else f"it goes from 0 to {end} there"
            )
            raise InvalidPositionError(number, offset, reason, tails)
