"""Creating, changing, sealing and deleting streams; decided inside a batch."""

import hashlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection

from controller.commit.batch import Batch
from controller.log.state import SegmentEnds
from controller.service import Service
from controller.store import streams as storage
from controller.streams.relocation import MovedError
from controller.streams.stream import (
    Identity,
    Registry,
    StreamState,
    settings_of,
    write_topology,
)
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.errors import (
    ImmutableSettingError,
    InvalidPositionError,
    InvalidRequestError,
    PreconditionFailedError,
    StreamExistsError,
)
from tidegauge.marks import Mark
from tidegauge.names import StreamName
from tidegauge.topology import Position, Topology
from tidegauge.wire.streams import (
    ChangeStream,
    CreateStream,
    StreamConfig,
    StreamInfo,
    TopologyInfo,
)

_log = logging.getLogger(__name__)


def etag(state: StreamState) -> str:
    """Name the newest durable version of a stream's settings."""
    return _etag(state, state.published_config)


def _etag(state: StreamState, config: StreamConfig) -> str:
    text = f"{state.identity.stream_id} {config.model_dump_json()}"
    return f'"{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"'


def describe(state: StreamState) -> StreamInfo:
    """Describe a stream as of its newest durable state."""
    return StreamInfo(
        stream=str(state.identity.name),
        stream_id=state.identity.stream_id,
        created_ms=state.identity.created_ms,
        config=state.published_config,
        topology=TopologyInfo.of(state.published_topology),
        watermark=state.watermark,
        revision=state.revision,
        final=state.final,
        tail=state.published_tails,
    )


def create_stream(  # noqa: PLR0913 (what a stream is made of, and when)
    batch: Batch,
    service: Service,
    name: StreamName,
    wanted: CreateStream,
    *,
    only_create: bool,
    key: int | None = None,
) -> tuple[StreamState, bool]:
    """Create a stream, or find it there with the same settings.

    ``key`` is for the new stream; None for the next one.

    Returns
    -------
    tuple
        The stream, and whether it was created.

    Raises
    ------
    StreamExistsError
        If it is there with other settings than the given ones.
    PreconditionFailedError
        If it is there and should only be created.
    NameTooLongError, TooManyStreamsError
        If the service takes no more, or no such name.
    """
    existing = service.registry.find(name)
    if existing is not None and not existing.deleted:
        if only_create:
            raise PreconditionFailedError(_etag(existing, existing.config))
        _check_same(existing, wanted)
        return existing, False
    service.limits.check_new_stream(name.scope, name.stream, service.ownership.streams)
    key = key or service.registry.next_key()
    state = _new_stream(service, key, name, _config_of(wanted))
    values = {
        "key": state.identity.key,
        "scope": name.scope,
        "stream": name.stream,
        "stream_id": state.identity.stream_id,
        "created_ms": state.identity.created_ms,
        "config": state.config.model_dump_json(),
        "topology": write_topology(state.aggregator.topology),
        "holder": service.ownership.controller,
    }
    service.registry.add(state)
    creation = _Creation(service.registry, state)
    batch.write(partial(creation.write, values=values))
    batch.touch(creation)
    return state, True


class _Creation:
    """A new stream on its way to the disk.

    The race: another controller stores one of the same name first. Then nothing is stored of this
    one, and it is left to that controller, as if it had moved there; whoever shares the
    transaction is not concerned.
    """

    def __init__(self, registry: Registry, state: StreamState) -> None:
        self._registry = registry
        self._state = state
        self._is_stored: Callable[[], bool]

    def write(self, connection: Connection, values: dict[str, Any]) -> None:
        """Store it, unless its name is taken."""
        self._is_stored = storage.insert_stream(connection, values)

    def before_commit(self, batch: Batch) -> None:
        """Add what else there is of the stream."""
        self._state.before_commit(batch)

    def after_commit(self) -> None:
        """Be there, or leave the name to who has it."""
        if self._is_stored():
            _log.info("stream created", extra={"stream": str(self._state.identity.name)})
            self._state.after_commit()
        else:
            self._registry.move_away(self._state)

    async def reload(self) -> None:
        """Become what the disk says."""
        await self._state.reload()


def check_stored(state: StreamState) -> None:
    """Refuse what was created, or found, while another controller was faster.

    Raises
    ------
    MovedError
        If so; asked again, that controller answers.
    """
    if not state.durable:
        raise MovedError(state.identity.name)


def _new_stream(
    service: Service, key: int, name: StreamName, config: StreamConfig
) -> StreamState:
    created_ms = service.clocks.now().wall_ms
    identity = Identity(key, name, str(uuid4()), created_ms)
    embedded = config.log == "embedded"
    make = Topology.of_equal_ranges if embedded else Topology.of_partitions
    topology = make(config.segments)
    clock = Aggregator(str(name), settings_of(config), topology)
    ends = SegmentEnds(tails=dict.fromkeys(topology.in_order, 0)) if embedded else None
    return StreamState(identity, config, clock, ends, service.context)


def _config_of(wanted: CreateStream) -> StreamConfig:
    values = wanted.model_dump()
    if values["log"] == "external":
        if values["max_segments"] is None:
            values["max_segments"] = values["segments"]
        _check_room(values["max_segments"], values["segments"])
    return StreamConfig(**values | {"scaling": values["scaling"] or "fixed"})


def _check_room(max_segments: int, segments: int) -> None:
    if max_segments < segments:
        reason = (
            f"{max_segments} are too few: the stream has {segments}; null is for as many as it "
            "was created with"
        )
        raise InvalidRequestError.of("max_segments", reason)


def _check_same(state: StreamState, wanted: CreateStream) -> None:
    stored = state.config.model_dump()
    number = wanted.segments if "segments" in wanted.model_fields_set else stored["segments"]
    alike = wanted.model_copy(update={"segments": number})
    given = _config_of(alike).model_dump(include=wanted.model_fields_set)
    differences = {
        field: {"stored": stored[field], "given": value}
        for field, value in given.items()
        if value != stored[field]
    }
    if differences:
        raise StreamExistsError(str(state.identity.name), differences)


def change_stream(
    batch: Batch, state: StreamState, change: ChangeStream, *, if_match: str
) -> StreamState:
    """Change the given settings of a stream.

    Raises
    ------
    PreconditionFailedError
        If the settings are no longer those that the caller read.
    ImmutableSettingError
        If a setting is fixed.
    """
    state.refuse_if_deleted()
    present = _etag(state, state.config)
    if if_match not in {"*", present}:
        raise PreconditionFailedError(present)
    given = change.model_dump(include=change.model_fields_set)
    fixed = sorted(given.keys() & {"segments", "log"})
    if fixed:
        raise ImmutableSettingError(str(state.identity.name), fixed)
    if state.config.log == "external" and "max_segments" in given:
        given["max_segments"] = given["max_segments"] or state.config.segments
        _check_room(given["max_segments"], len(state.aggregator.topology.segments))
    if "scaling" in given:
        given["scaling"] = given["scaling"] or "fixed"
    state.change_config(state.config.model_copy(update=given))
    values = {"config": state.config.model_dump_json()}
    batch.write(partial(storage.update_stream, stream_key=state.identity.key, values=values))
    batch.touch(state)
    return state


def delete_stream(batch: Batch, state: StreamState) -> None:
    """Delete a stream; its rows are removed bit by bit: see `controller.background.purging`."""
    state.refuse_if_deleted()
    state.deleted = True
    batch.write(partial(storage.delete_stream, stream_key=state.identity.key))
    batch.touch(state)
    _log.info("stream deleted", extra={"stream": str(state.identity.name)})


def seal_stream(
    batch: Batch, service: Service, state: StreamState, position: Position | None
) -> Mark:
    """End a stream: a pass, and then the final mark; sealed again, the same mark.

    Raises
    ------
    InvalidRequestError
        If the log is external and its end is not given.
    InvalidPositionError
        If the end of one of its partitions is missing, or below what writers reported.
    """
    state.refuse_if_deleted()
    clock = state.aggregator
    if not clock.final or clock.newest is None:
        lengths = _end_of(state, position)
        final = clock.seal(lengths, service.clocks.now())[-1]
        values = {"topology": write_topology(clock.topology)}
        batch.write(
            partial(storage.update_stream, stream_key=state.identity.key, values=values)
        )
        batch.touch(state)
        _log.info("stream sealed", extra={"stream": str(state.identity.name)})
        return final
    return clock.newest


def _end_of(state: StreamState, position: Position | None) -> Position:
    if state.ends is None:
        if position is None:
            message = "send it: the log is external, so only you know where each partition ends"
            raise InvalidRequestError.of("position", message)
        return position
    tails = {number: state.ends.tails[number] for number in state.aggregator.topology.unsealed}
    for number, offset in (position or {}).items():
        if offset != tails.get(number):
            reason = f"the end of an embedded segment is its tail, {tails.get(number)}"
            raise InvalidPositionError(number, offset, reason, tails)
    return tails
