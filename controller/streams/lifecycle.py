"""Creating, changing, sealing and deleting streams; decided inside a batch."""

import hashlib
import logging
from collections.abc import Callable, Sized
from functools import partial
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection

from controller.commit.batch import Batch
from controller.log.embedded import EmbeddedLog
from controller.log.external import ExternalLog
from controller.store import streams as storage
from controller.streams.registry import Registry
from controller.streams.relocation import MovedError
from controller.streams.stream import Identity, StreamState, settings_of
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.errors import (
    ImmutableSettingError,
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
    registry: Registry,
    name: StreamName,
    request: CreateStream,
    *,
    only_create: bool,
    streams: Sized,
    key: int | None = None,
    controller: int | None = None,
) -> tuple[StreamState, bool]:
    """Create a stream, or find it there with the same settings.

    Parameters
    ----------
    batch
        The transaction.
    registry
        The streams of this controller.
    name
        Of the stream.
    request
        Its settings.
    only_create
        Whether it must not be there.
    streams
        As many as there are, whoever holds them.
    key
        Of the new stream; None for the next one of this controller.
    controller
        Who is to hold it: the fencing token of the lease, if there may be other controllers.

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
    existing = registry.find(name)
    if existing is not None and not existing.deleted:
        if only_create:
            raise PreconditionFailedError(_etag(existing, existing.config))
        _check_same(existing, request)
        return existing, False
    registry.limits.check_new_stream(name.scope, name.stream, streams)
    state = _new_stream(registry, key or registry.next_key(), name, _config_of(request))
    values = {
        "key": state.identity.key,
        "scope": name.scope,
        "stream": name.stream,
        "stream_id": state.identity.stream_id,
        "created_ms": state.identity.created_ms,
        "config": state.config.model_dump_json(),
        "topology": storage.dump_topology(state.aggregator.topology),
        "holder": controller,
    }
    registry.add(state)
    creation = _Creation(registry, state)
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
    registry: Registry, key: int, name: StreamName, config: StreamConfig
) -> StreamState:
    identity = Identity(key, name, str(uuid4()), registry.clocks.now().wall_ms)
    log: EmbeddedLog | ExternalLog
    if config.log == "embedded":
        topology = Topology.of_equal_ranges(config.segments)
        log = EmbeddedLog(tails=dict.fromkeys(topology.in_order, 0))
    else:
        topology, log = Topology.of_partitions(config.segments), ExternalLog()
    aggregator = Aggregator(str(name), settings_of(config), topology)
    return StreamState(identity, config, aggregator, log, registry)


def _config_of(request: CreateStream) -> StreamConfig:
    values = request.model_dump()
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


def _check_same(state: StreamState, request: CreateStream) -> None:
    stored, fields = state.config.model_dump(), request.model_fields_set
    number = request.segments if "segments" in fields else stored["segments"]
    alike = request.model_copy(update={"segments": number})
    requested = _config_of(alike).model_dump(include=fields)
    differences = {
        field: {"stored": stored[field], "given": value}
        for field, value in requested.items()
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
    changes = change.model_dump(include=change.model_fields_set)
    fixed = sorted(changes.keys() & {"segments", "log"})
    if fixed:
        raise ImmutableSettingError(str(state.identity.name), fixed)
    if state.config.log == "external" and "max_segments" in changes:
        changes["max_segments"] = changes["max_segments"] or state.config.segments
        _check_room(changes["max_segments"], len(state.aggregator.topology.segments))
    if "scaling" in changes:
        changes["scaling"] = changes["scaling"] or "fixed"
    state.change_config(state.config.model_copy(update=changes))
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


def seal_stream(batch: Batch, state: StreamState, position: Position | None) -> Mark:
    """End a stream: a pass, and then the final mark; sealed again, the same mark.

    Raises
    ------
    InvalidRequestError
        If the log is external and its end is not given.
    InvalidPositionError
        If the end of one of its partitions is missing, or below what writers reported.
    """
    state.refuse_if_deleted()
    aggregator = state.aggregator
    if aggregator.final and aggregator.newest is not None:
        return aggregator.newest
    lengths = state.log.end(aggregator.topology, position)
    outcome = aggregator.seal(lengths, state.now())
    state.take_note(outcome)
    final = outcome.marks[-1]
    values = {"topology": storage.dump_topology(aggregator.topology)}
    batch.write(partial(storage.update_stream, stream_key=state.identity.key, values=values))
    batch.touch(state)
    _log.info("stream sealed", extra={"stream": str(state.identity.name)})
    return final
