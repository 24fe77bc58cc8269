"""Streams made from their rows: by the controller that holds them, or by one that looks."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, Row

from controller.log.embedded import EmbeddedLog
from controller.log.external import ExternalLog
from controller.store.listening import in_holder_time
from controller.store.marks import StoredMarks
from controller.streams.stream import Host, Identity, StreamState, settings_of
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.changes import StoredAggregation
from tidegauge.names import StreamName
from tidegauge.topology import Topology
from tidegauge.wire.streams import StreamConfig, TopologyInfo


def restore_stream(connection: Connection, row: Row[Any], host: Host) -> StreamState:
    """Read a stream with all that belongs to it, to be held."""
    stored = host.change_store.restore(connection, row.key)
    # The changelog tells listening time of the stream, memory that of this controller's clock.
    stored = in_holder_time(stored, row.listening_ms)
    state = _restored(connection, row, stored, host, read_log=EmbeddedLog.read)
    state.listening_offset_ms = row.listening_ms
    return state


def visit_stream(connection: Connection, row: Row[Any], host: Host) -> StreamState:
    """Read what is known of a stream that another controller holds; not to be changed."""
    stored = StoredAggregation(newest=StoredMarks(connection, row.key).newest)
    return _restored(connection, row, stored, host, read_log=EmbeddedLog.visit)


def _restored(
    connection: Connection,
    row: Row[Any],
    stored: StoredAggregation,
    host: Host,
    *,
    read_log: Callable[[Connection, int, Topology], EmbeddedLog],
) -> StreamState:
    name = StreamName(row.scope, row.stream)
    config = StreamConfig.model_validate_json(row.config)
    topology = TopologyInfo.model_validate_json(row.topology).to_topology()
    aggregator = Aggregator.restore(str(name), settings_of(config), topology, stored)
    log: EmbeddedLog | ExternalLog = ExternalLog()
    if config.log == "embedded":
        log = read_log(connection, row.key, topology)
    identity = Identity(row.key, name, row.stream_id, row.created_ms)
    return StreamState(identity, config, aggregator, log, host)
