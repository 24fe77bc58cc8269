"""Which segment an event belongs to: the one that owns the hash of its key."""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from controller.log.codec import EncodedEvents, encode_chunks
from controller.log.times import EventTimes
from tidegauge.errors import InvalidRequestError
from tidegauge.topology import KeyRange, Topology
from tidegauge.wire.routing import owners, split

_EVERY_KEY = KeyRange(0.0, 1.0)


class RoutedEvents(NamedTuple):
    """Events of many keys, and encoded by segment for those that owned the keys in a topology."""

    events: pa.RecordBatch
    writer: str | None
    append_time: int
    times: EventTimes
    topology_revision: int
    parts: Mapping[int, list[EncodedEvents]]


def route(
    topology: Topology,
    events: pa.RecordBatch,
    *,
    writer: str | None,
    append_time: int,
    times: EventTimes,
) -> RoutedEvents:
    """Find the segments of events by their keys, and encode them; keeps the order in each.

    See `encode_chunks` for the writer and the time of the append.
    """
    parts = {
        number: encode_chunks(part, writer=writer, append_time=append_time)
        for number, part in split(topology, events)
    }
    return RoutedEvents(events, writer, append_time, times, topology.revision, parts)


def check_keys(topology: Topology, segment: int, events: pa.RecordBatch) -> None:
    """Refuse events that another segment owns: they would lose the order of their key.

    A segment that grows no more, or is none, is left to the append itself, which says so.
    """
    if segment not in topology.unsealed:
        return
    owned = topology[segment].key_range
    if owned is None or owned == _EVERY_KEY:
        return
    keys = pc.unique(events.column("key"))
    owner = owners(topology, keys)
    at = pc.index(pc.not_equal(owner, segment), value=True).as_py()
    if at >= 0:
        message = (
            f"{keys[at].as_py()!r} belongs to segment {owner[at]}, not {segment}; append "
            "it there, or send NDJSON to the stream, which routes by key"
        )
        raise InvalidRequestError.of("key", message)
