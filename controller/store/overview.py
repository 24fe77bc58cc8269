"""What the tables of PostgreSQL say of streams, whoever holds them: many in few queries."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Connection, Row, cast, func, select, true, tuple_

from controller.schema import chunks, marks, streams
from controller.store.marks import load_position
from controller.store.truncation import Truncation
from tidegauge.event_time import END_OF_TIME
from tidegauge.lattice import DownSet, count_between, down_set, frontier
from tidegauge.names import StreamName
from tidegauge.wire.streams import StreamBrief, StreamConfig, StreamInfo, TopologyInfo


def read_briefly(connection: Connection, names: Iterable[StreamName]) -> list[StreamBrief]:
    """Describe streams as `read_overview` does, in short."""
    return [_in_short(one) for one in read_overview(connection, names)]


def _in_short(info: StreamInfo) -> StreamBrief:
    events = None
    if info.tail is not None and info.first_cut is not None:
        events = count_between(info.topology.to_topology(), info.first_cut, info.tail)
    return StreamBrief(
        **info.model_dump(include=set(StreamBrief.model_fields)),
        log=info.config.log,
        table=info.config.table,
        follows_clock=info.config.max_future_skew_ms is not None,
        drops_writers=info.config.drops_writers,
        segments=len(info.topology.segments),
        events=events,
    )


def read_overview(connection: Connection, names: Iterable[StreamName]) -> list[StreamInfo]:
    """Describe streams in order of name; those that are not there are left out."""
    newest = (
        select(
            marks.c.revision, marks.c.lower, marks.c.cut, marks.c.created_ms.label("marked_ms")
        )
        .where(marks.c.stream_key == streams.c.key)
        .order_by(marks.c.revision.desc())
        .limit(1)
        .lateral()
    )
    named = [(one.scope, one.stream) for one in names]
    wanted = tuple_(streams.c.scope, streams.c.stream).in_(named)
    query = select(streams, newest).outerjoin_from(streams, newest, true()).where(wanted)
    rows = sorted(connection.execute(query), key=lambda row: (row.scope, row.stream))
    topologies = {row.key: TopologyInfo.model_validate_json(row.topology) for row in rows}
    tails = _read_tails(connection, topologies)
    return [_describe(row, topologies[row.key], tails[row.key]) for row in rows]


def _read_tails(
    connection: Connection, topologies: dict[int, TopologyInfo]
) -> dict[int, dict[int, int]]:
    """Read where the segments of streams end that have events."""
    keys = [key for key, topology in topologies.items() for _ in topology.segments]
    numbers = [one.number for topology in topologies.values() for one in topology.segments]
    array = ARRAY(BigInteger)
    unnested = func.unnest(cast(keys, array), cast(numbers, array))
    asked = unnested.table_valued("stream_key", "segment").render_derived()
    last = (
        select((chunks.c.first_offset + chunks.c.events).label("tail"))
        .where(chunks.c.stream_key == asked.c.stream_key, chunks.c.segment == asked.c.segment)
        .order_by(chunks.c.first_offset.desc())
        .limit(1)
        .lateral()
    )
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for row in connection.execute(select(asked, last).join_from(asked, last, true())):
        found[row.stream_key][row.segment] = row.tail
    return found


def _describe(row: Row[Any], topology: TopologyInfo, ends: dict[int, int]) -> StreamInfo:
    config = StreamConfig.model_validate_json(row.config)
    first: DownSet = {}
    cut = Truncation.load(row.truncation).cut
    whole = topology.to_topology()
    if cut:
        first = down_set(whole, cut)
    # Where all of a segment is truncated, it ends where it begins.
    tail = dict.fromkeys((one.number for one in topology.segments), 0) | first | ends
    is_embedded = config.log == "embedded"
    is_marked_table = config.table is not None and row.cut is not None
    return StreamInfo(
        stream=str(StreamName(row.scope, row.stream)),
        stream_id=row.stream_id,
        created_ms=row.created_ms,
        config=config,
        topology=topology,
        watermark=row.lower,
        revision=row.revision or 0,
        marked_ms=row.marked_ms,
        version=config.version_before(load_position(row.cut)) if is_marked_table else None,
        final=row.lower == END_OF_TIME,
        tail=tail if is_embedded else None,
        first_cut=frontier(whole, first) if is_embedded else None,
    )
