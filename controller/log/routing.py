"""Which segment an event belongs to: the one that owns the hash of its key."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from controller.log.codec import EncodedEvents, encode_chunks
from tidegauge.errors import InvalidRequestError
from tidegauge.names import key_hash
from tidegauge.topology import KeyRange, Topology

_EVERY_KEY = KeyRange(0.0, 1.0)
_hash = lru_cache(maxsize=65_536)(key_hash)
"""The same keys come again and again."""


class RoutedEvents(NamedTuple):
    """Events of many keys, and encoded by segment for those that owned the keys in a topology."""

    events: pa.RecordBatch
    writer: str | None
    append_time: int
    topology_revision: int
    parts: Mapping[int, list[EncodedEvents]]


def route(
    topology: Topology, events: pa.RecordBatch, *, writer: str | None, append_time: int
) -> RoutedEvents:
    """Find the segments of events by their keys, and encode them; keeps the order in each.

    See `encode_chunks` for who appends them, and when.
    """
    keys = events.column("key").dictionary_encode()
    segments = [topology.route(_hash(key)) for key in keys.dictionary.to_pylist()]
    routes = pa.array(segments, pa.int64()).take(keys.indices)
    parts = {
        number: encode_chunks(
            events.filter(pc.equal(routes, number)), writer=writer, append_time=append_time
        )
        for number in sorted(set(segments))
    }
    return RoutedEvents(events, writer, append_time, topology.revision, parts)


def check_keys(topology: Topology, segment: int, events: pa.RecordBatch) -> None:
    """Refuse events that another segment owns: they would lose the order of their key.

    A segment that grows no more, or is none, is left to the append itself, which says so.
    """
    if segment not in topology.unsealed:
        return
    owned = topology[segment].key_range
    if owned is None or owned == _EVERY_KEY:
        return
    for key in pc.unique(events.column("key")).to_pylist():
        if not owned.low <= _hash(key) < owned.high:
            message = (
                f"{key!r} belongs to segment {topology.route(_hash(key))}, not {segment}; append "
                "it there, or send NDJSON to the stream, which routes by key"
            )
            raise InvalidRequestError.of("key", message)
