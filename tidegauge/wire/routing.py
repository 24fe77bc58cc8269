"""Which segment owns each of many events, in Arrow's columns: the same for clients and service."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.names import key_hash
from tidegauge.topology import Topology

_hash = lru_cache(maxsize=65_536)(key_hash)
"""The same keys come again and again."""


def owners(topology: Topology, keys: pa.Array) -> pa.Array:
    """Return the growing segment that owns each key; every distinct one is hashed once.

    Raises ``LookupError`` if nothing grows, as `Topology.route` does.
    """
    distinct = keys.dictionary_encode()
    segments = [topology.route(_hash(key)) for key in distinct.dictionary.to_pylist()]
    return pa.array(segments, pa.int64()).take(distinct.indices)


def split(topology: Topology, events: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split events by the segments that own their keys, in order of number; keeps the order in each."""
    segments = owners(topology, events.column("key"))
    numbers = segments.unique()
    if len(numbers) == 1:
        yield numbers[0].as_py(), events
        return
    order = pc.sort_indices(segments)  # stable, or keys would lose their order
    ordered, start = events.take(order), 0
    for run in _runs(segments.take(order)):
        yield run["values"], ordered.slice(start, run["counts"])
        start += run["counts"]


def _runs(ordered: pa.Array) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = ordered.value_counts().to_pylist()
    return runs
