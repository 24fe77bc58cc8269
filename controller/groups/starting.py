"""Where a new reader group starts, and what it is stored with."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controller.store.groups import GroupSettings, StoredGroup
from controller.streams import history
from controller.streams.stream import StreamState
from tidegauge.errors import GroupExistsError, InvalidPositionError, InvalidRequestError
from tidegauge.topology import Position
from tidegauge.wire.groups import CreateGroup

if TYPE_CHECKING:
    from controller.service import Service


def check_start(wanted: CreateGroup) -> None:
    """Refuse a group that should start in two ways, or in streams that it does not read."""
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


def settings_of(states: Iterable[StreamState], wanted: CreateGroup) -> GroupSettings:
    """Name what a group is stored with."""
    ids = {str(state.identity.name): state.identity.stream_id for state in states}
    return GroupSettings(
        streams=sorted(ids),
        stream_ids=ids,
        heartbeat_ms=wanted.heartbeat_ms,
        dead_after_ms=wanted.dead_after_ms,
    )


def check_same(stored: StoredGroup, wanted: GroupSettings) -> None:
    """Refuse to create a group that is there with other settings."""
    before, given = stored.settings.model_dump(), wanted.model_dump()
    differences = {
        name: {"stored": before[name], "given": value}
        for name, value in given.items()
        if value != before[name]
    }
    if differences:
        raise GroupExistsError(str(stored.name), differences)


async def start_in(service: "Service", state: StreamState, wanted: CreateGroup) -> Position:
    """Find where a group starts in one of its streams.

    Raises
    ------
    InvalidPositionError
        If the stream is not where it should start.
    InvalidRequestError
        If it should start at the end of an external log.
    """
    if wanted.start_cut is not None:
        cut = wanted.start_cut.get(str(state.identity.name), {})
        _check_cut(cut, state)
        return cut
    if wanted.start_time is not None:
        position, _ = await history.start_of(service, state, wanted.start_time)
        return position or {}
    if wanted.start == "latest":
        if state.published_tails is None:
            message = (
                "only you know where an external log ends; send start_cut, or a start_time"
            )
            raise InvalidRequestError.of("start", message)
        return dict(state.published_tails)
    return {}


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
