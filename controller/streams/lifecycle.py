"""Creating, changing, scaling, sealing and deleting streams; decided inside a batch."""

import hashlib
import logging
from functools import partial
from itertools import islice
from typing import Any
from uuid import uuid4

from controller.commit.batch import Batch
from controller.log.embedded import EmbeddedLog
from controller.log.external import ExternalLog
from controller.store import streams as storage
from controller.streams import load
from controller.streams.registry import Registry
from controller.streams.stream import Identity, StreamState, settings_of
from tidegauge.aggregator import Aggregator
from tidegauge.errors import (
    ImmutableSettingError,
    InvalidRequestError,
    PreconditionFailedError,
    SegmentLimitError,
    StreamExistsError,
    StreamSealedError,
    TopologyChangedError,
    UnknownStreamSegmentError,
)
from tidegauge.marks import Mark
from tidegauge.names import StreamName
from tidegauge.scaling import MOST_SEGMENTS, continued, continuing
from tidegauge.scaling_policy import Action, Load, scaled
from tidegauge.topology import KeyRange, Position, Topology
from tidegauge.wire.streams import (
    ChangeStream,
    CreateStream,
    ScaleStream,
    SettingsFields,
    StreamBrief,
    StreamConfig,
    StreamInfo,
)

_log = logging.getLogger(__name__)
_NAMED = 10  # of the writers that have not ended, in an answer


def etag(state: StreamState, config: StreamConfig | None = None) -> str:
    """Return the ETag of a stream's settings, by default of the newest durable ones."""
    config = config or state.published.config
    text = f"{state.identity.stream_id} {config.model_dump_json()}"
    return f'"{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"'


def describe(state: StreamState) -> StreamInfo:
    """Describe a stream as of its newest durable state."""
    published = state.published
    return StreamInfo(
        **_describe_time(state),
        config=published.config,
        topology=state.descriptions.of(published.topology),
        tail=published.tails,
        first_cut=published.first_cut,
        scaling=load.describe(state),
    )


def describe_briefly(state: StreamState) -> StreamBrief:
    """Describe a stream in a list, without what grows with its segments."""
    log, config = state.log, state.published.config
    events = None
    if isinstance(log, EmbeddedLog):
        events = sum(state.durable_tails.values()) - sum(log.first.values())
    return StreamBrief(
        **_describe_time(state),
        log=config.log,
        table=config.table,
        follows_clock=config.max_future_skew_ms is not None,
        drops_writers=config.drops_writers,
        segments=len(state.published.topology.segments),
        events=events,
    )


def _describe_time(state: StreamState) -> dict[str, Any]:
    """Return which stream it is, and where it stands in event time."""
    mark = state.published.mark
    return {
        "stream": str(state.identity.name),
        "created_ms": state.identity.created_ms,
        "revision": state.revision,
        "marked_ms": None if mark is None else mark.marked_ms,
        "version": state.published.config.version_before(None if mark is None else mark.cut),
        "stream_id": state.identity.stream_id,
        "watermark": state.watermark,
        "final": state.final,
    }


def create_stream(
    batch: Batch,
    registry: Registry,
    name: StreamName,
    request: CreateStream,
    *,
    only_create: bool,
) -> tuple[StreamState, bool]:
    """Create a stream, or find it there with the same settings; return whether it is new."""
    existing = registry.find(name)
    if existing is not None and not existing.deleted:
        if only_create:
            raise PreconditionFailedError(etag(existing, existing.config))
        _check_same(existing, request)
        return existing, False
    registry.limits.check_new_stream(name.scope, name.stream, registry)
    config = config_of(request)
    load.check_policy(str(name), config)
    _check_table(config)
    log: EmbeddedLog | ExternalLog = ExternalLog()
    created_ms = registry.clocks.now().wall_ms
    topology = Topology.of_partitions(config.segments, created_ms)
    if config.log == "embedded":
        topology = Topology.of_equal_ranges(config.segments, created_ms)
        log = EmbeddedLog(tails=dict.fromkeys(topology.in_order, 0))
    identity = Identity(registry.last_key + 1, name, str(uuid4()), created_ms)
    aggregator = Aggregator(str(name), settings_of(config), topology)
    state = StreamState(identity, config, aggregator, log, registry)
    registry.add(state)
    values = {
        "key": identity.key,
        "scope": name.scope,
        "stream": name.stream,
        "stream_id": identity.stream_id,
        "created_ms": identity.created_ms,
        "config": config.model_dump_json(),
        "topology": state.descriptions.of(topology).model_dump_json(),
    }
    batch.write(partial(storage.insert_stream, values=values))
    batch.touch(state)
    return state, True


def config_of(request: CreateStream) -> StreamConfig:
    """Return the settings of a stream that is created so."""
    values = request.model_dump()
    if values["log"] == "external":
        _check_retention(request)
        if values["max_segments"] is None:
            values["max_segments"] = values["segments"]
        _check_room(values["max_segments"], values["segments"])
    return StreamConfig(**values | {"scaling": values["scaling"] or "fixed"})


def _check_room(max_segments: int, segments: int) -> None:
    if max_segments < segments:
        reason = (
            f"{max_segments} are too few: the stream has {segments}; null is for the number at "
            "creation"
        )
        raise InvalidRequestError.of("max_segments", reason)


def _check_retention(settings: SettingsFields) -> None:
    if settings.retention is not None:
        reason = "the log is external: its owner decides how long events are kept; leave it out"
        raise InvalidRequestError.of("retention", reason)


def _check_table(config: StreamConfig) -> None:
    if config.table is not None and (config.log, config.max_segments) != ("external", 1):
        reason = "a table is an external log of one partition; create it with log external, segments 1"
        raise InvalidRequestError.of("table", reason)


def _check_same(state: StreamState, request: CreateStream) -> None:
    stored, fields = state.config.model_dump(), request.model_fields_set
    number = request.segments if "segments" in fields else stored["segments"]
    alike = request.model_copy(update={"segments": number})
    requested = config_of(alike).model_dump(include=fields)
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
    """Change the given settings of a stream, unless one is fixed or somebody was faster."""
    state.refuse_if_deleted()
    present = etag(state, state.config)
    if if_match not in {"*", present}:
        raise PreconditionFailedError(present)
    changes = {name: getattr(change, name) for name in change.model_fields_set}
    fixed = sorted(changes.keys() & {"segments", "log"})
    if fixed:
        raise ImmutableSettingError(str(state.identity.name), fixed)
    if state.config.log == "external" and "max_segments" in changes:
        changes["max_segments"] = changes["max_segments"] or state.config.segments
        _check_room(changes["max_segments"], len(state.aggregator.topology.segments))
    if state.config.log == "external":
        _check_retention(change)
    if "scaling" in changes:
        changes["scaling"] = changes["scaling"] or "fixed"
    config = StreamConfig.model_validate(state.config.model_dump() | changes)
    load.check_policy(str(state.identity.name), config)
    _check_table(config)
    state.change_config(config)
    state.store(batch, config=state.config.model_dump_json())
    if config.scaling == "fixed" and state.load != Load():
        load.store(batch, state, Load())  # a policy that comes later is not to judge by it
    seal_ended(batch, state)  # as many writers may be enough now
    return state


def delete_stream(batch: Batch, state: StreamState) -> None:
    """Delete a stream; its rows are removed bit by bit: see `controller.background.purging`."""
    state.refuse_if_deleted()
    state.deleted = True
    batch.write(partial(storage.delete_stream, stream_key=state.identity.key))
    batch.touch(state)
    _log.info("stream deleted", extra={"stream": str(state.identity.name)})


def scale_stream(
    batch: Batch, state: StreamState, request: ScaleStream, *, reason: str = "by hand"
) -> list[int]:
    """Seal segments at their tails, and return the numbers of those that continue them.

    The race: an answer is lost and the call repeated, or two ask for the same. What is scaled in
    just this way already is answered as the first time, whatever ``topology_revision`` says.
    """
    log, name = state.embedded_log(), str(state.identity.name)
    if state.aggregator.final:
        raise StreamSealedError(name)
    topology = state.aggregator.topology
    seal, ranges = sorted(set(request.seal)), [KeyRange(*bounds) for bounds in request.ranges]
    for number in seal:
        if number not in topology:
            raise UnknownStreamSegmentError(number)
    if repeated := continued(topology, seal, ranges):
        return [segment.number for segment in repeated]
    _check_still_so(name, topology, seal, request.topology_revision)
    try:
        added = continuing(topology, seal, ranges)
    except ValueError as error:
        raise InvalidRequestError.of("ranges", str(error)) from error
    _check_room_to_grow(state, len(seal), len(added))
    log.begin(segment.number for segment in added)
    lengths = {number: log.tails[number] for number in seal}
    grown = topology.scaled(lengths, added, now_ms=state.now().wall_ms)
    state.aggregator.change_topology(grown)
    state.store(batch, topology=state.descriptions.of(grown).model_dump_json())
    numbers = [segment.number for segment in added]
    if state.config.scaling != "fixed":
        action = Action(state.now().wall_ms, seal, numbers, reason)
        load.store(batch, state, scaled(state.load, action, state.listening_ms))
    known = {"sealed": seal, "added": numbers, "reason": reason}
    _log.info("stream scaled", extra={"stream": name, **known})
    return numbers


def _check_still_so(name: str, topology: Topology, seal: list[int], given: int | None) -> None:
    """Refuse a scaling that is based on another topology."""
    if given is not None and given != topology.revision:
        raise TopologyChangedError(name, topology.revision, f"revision {given} was asked for")
    for number in seal:
        if topology[number].sealed_length is not None:
            after = " and ".join(map(str, topology.successors[number]))
            reason = f"segment {number} is sealed already, and continued by {after}"
            raise TopologyChangedError(name, topology.revision, reason)


def _check_room_to_grow(state: StreamState, sealed: int, added: int) -> None:
    """Refuse more segments than there may be; fewer than there are is always fine."""
    name, config, topology = str(state.identity.name), state.config, state.aggregator.topology
    if (in_all := len(topology.segments) + added) > MOST_SEGMENTS:
        raise SegmentLimitError(name, in_all, MOST_SEGMENTS, "all")
    limit = load.most_growing(config)
    growing = len(topology.unsealed) - sealed + added
    if added > sealed and growing > limit:
        raise SegmentLimitError(name, growing, limit, "growing")


def seal_ended(batch: Batch, state: StreamState) -> list[str]:
    """Seal a stream once all its writers have ended; return the first ones that have not.

    None of those that are known may be missing: one that left may come back, as a job does that is
    started once an hour.
    """
    aggregator = state.aggregator
    if aggregator.all_ended and not aggregator.final:
        seal_stream(batch, state, None if state.log.tails is not None else aggregator.written)
    return list(islice(aggregator.unended, _NAMED))


def seal_stream(batch: Batch, state: StreamState, position: Position | None) -> Mark:
    """End a stream: a pass, and then the final mark; sealed again, the same mark.

    Refused if the end of an external log is not given for each partition, or below what
    writers reported.
    """
    state.refuse_if_deleted()
    aggregator = state.aggregator
    if aggregator.final and aggregator.newest is not None:
        return aggregator.newest
    lengths = state.log.end(aggregator.topology, position)
    outcome = aggregator.seal(lengths, state.now())
    state.take_note(outcome)
    if isinstance(state.log, EmbeddedLog):
        state.log.transactions.abort_all(wall_ms=state.now().wall_ms)
    final = outcome.marks[-1]
    state.store(batch, topology=state.descriptions.of(aggregator.topology).model_dump_json())
    _log.info("stream sealed", extra={"stream": str(state.identity.name)})
    return final
