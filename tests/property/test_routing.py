"""Routing in columns is routing one by one."""

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.names import key_hash
from tidegauge.topology import KeyRange, Segment, Topology
from tidegauge.wire.columns import EVENT_SCHEMA
from tidegauge.wire.routing import split

KEYS = st.lists(st.text(max_size=4) | st.sampled_from(["a", "b", "ü"]), max_size=60)


def _events(keys: list[str]) -> pa.RecordBatch:
    """Make events whose values are their numbers."""
    values = [str(number).encode() for number in range(len(keys))]
    times = pa.nulls(len(keys), pa.int64())
    return pa.record_batch([keys, times, values], schema=EVENT_SCHEMA)


@given(KEYS, st.sets(st.floats(0.01, 0.99), max_size=5))
def test_a_column_of_keys_is_split_as_each_key_alone_is_routed(
    keys: list[str], cuts: set[float]
) -> None:
    edges = [0.0, *sorted(cuts), 1.0]
    ranges = [KeyRange(*pair) for pair in pairwise(edges)]
    topology = Topology(Segment(number, owned) for number, owned in enumerate(ranges))
    expected: dict[int, list[bytes]] = {}
    for number, key in enumerate(keys):
        segment = topology.route(key_hash(key))
        expected.setdefault(segment, []).append(str(number).encode())
    found = {
        segment: part.column("value").to_pylist()
        for segment, part in split(topology, _events(keys))
    }
    assert found == expected
