"""How reader groups are created: what with, and where they start."""

from dataclasses import dataclass
from functools import partial

from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.groups.registry import Groups
from controller.store.groups import GroupSettings, StoredGroup
from controller.streams import history
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from tidegauge.errors import InvalidPositionError, InvalidRequestError, TruncatedError
from tidegauge.event_time import check_unit
from tidegauge.groups import start
from tidegauge.lattice import down_set
from tidegauge.names import StreamName
from tidegauge.topology import Position
from tidegauge.wire.groups import CreateGroup


@dataclass(frozen=True, slots=True)
class GroupCreation:
    """Creates reader groups."""

    _groups: Groups
    _registry: Registry
    _sequencer: Sequencer
    _database: Database

    async def create(self, name: StreamName, request: CreateGroup) -> tuple[StoredGroup, bool]:
        """Create a group, or find it there with the same settings; return whether it is new."""
        _check_start(request)
        states = []
        for stream in request.streams:
            try:
                parsed = StreamName.parse(stream)
            except ValueError as error:
                raise InvalidRequestError.of("streams", str(error)) from error
            states.append(self._registry.get(parsed))
        by_name = {str(state.identity.name): state for state in states}
        settings = GroupSettings(
            streams=sorted(by_name),
            stream_ids={stream: state.identity.stream_id for stream, state in by_name.items()},
            heartbeat_ms=request.heartbeat_ms,
            dead_after_ms=request.dead_after_ms,
        )
        positions = {
            stream: await _start_in(self._database, state, request)
            for stream, state in by_name.items()
        }
        # After the positions, which must not name segments that a topology lacks.
        topologies = {stream: state.published.topology for stream, state in by_name.items()}
        new = StoredGroup(name, settings, start(topologies, positions))
        return await self._sequencer.submit(partial(self._groups.find_or_add, new))


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
        message = f"{others[0]!r} is not one of the group's streams"
        raise InvalidRequestError.of("start_cut", message)


async def _start_in(database: Database, state: StreamState, request: CreateGroup) -> Position:
    """Find where a group starts in one of its streams."""
    cut = (request.start_cut or {}).get(str(state.identity.name))
    if cut:
        _check_cut(cut, state)
        return cut
    if request.start_time is not None:
        if state.config.max_future_skew_ms is not None:
            try:
                check_unit(request.start_time)
            except ValueError as error:
                raise InvalidRequestError.of("start_time", str(error)) from None
        position, _ = await history.start_of(database, state, request.start_time)
        return position or {}
    if request.start != "latest" or request.start_cut is not None:
        return state.published.first_cut or {}
    if state.published.tails is None:
        message = "only you know where an external log ends; send start_cut, or a start_time"
        raise InvalidRequestError.of("start", message)
    return dict(state.published.tails)


def _check_cut(cut: Position, state: StreamState) -> None:
    """Refuse a cut outside the stream, or before its first events.

    An external log has an end only once it is sealed.
    """
    tails = state.published.tails or {}
    segments = state.published.topology.segments
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
    if tails:
        counts = down_set(state.published.topology, cut)
        for number, first in state.embedded_log().first.items():
            if (at := counts.get(number, 0)) < first:
                raise TruncatedError(str(state.identity.name), number, at, first)
