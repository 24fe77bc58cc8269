"""What a changelog stores is what there is, whatever fails, restarts, or is compacted meanwhile.

Several streams share the tables, and each is compared with the model whenever it was read back.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, delete, insert

from controller.commit.batch import Batch
from controller.schema import changelog, marks, metadata, streams
from controller.store.changelog import Changelogs
from tests.property import scripts
from tests.property.events import Shape
from tests.property.memory import Memory
from tests.property.model import Model, Rules
from tests.property.pair import Pair
from tests.property.scripts import Change, Expire, Step, Tick, mixed, run_script
from tidegauge.aggregation.changes import Changes, StoredAggregation
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.topology import Topology


@dataclass
class Rows:
    """The changelogs of all streams, which lie in the same tables."""

    connection: Connection
    store: Changelogs = field(default_factory=Changelogs)
    last_key: int = 0

    def create(self) -> int:
        """Insert a stream, and return its key."""
        self.last_key = key = self.last_key + 1
        texts = dict.fromkeys(("scope", "stream", "stream_id", "config", "topology"), str(key))
        self.connection.execute(insert(streams).values(key=key, created_ms=0, **texts))
        return key

    def delete(self, key: int) -> None:
        """Delete a stream, whose other rows are not purged yet."""
        self.store.forget(key)
        self.connection.execute(delete(streams).where(streams.c.key == key))


@dataclass
class Stored(Memory):
    """A part of the changelogs."""

    rows: Rows = field(kw_only=True)

    def __post_init__(self) -> None:
        self.key = self.rows.create()

    def apply(self, changes: Changes) -> None:
        batch = Batch()
        self.rows.store.add(batch, self.key, changes)
        batch.carry_out(self.rows.connection)

    def stored(self) -> StoredAggregation:
        return self.read(self.rows.store)

    def read(self, store: Changelogs) -> StoredAggregation:
        (stored,) = store.restore(self.rows.connection, [self.key])
        return stored


@dataclass
class Stream(Pair):
    """One whose every transaction is read back; if it is lost, that is the one before."""

    memory: Stored = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.commit()

    def commit(self, *, compact: bool = False) -> None:
        super().commit(compact=compact)
        self.kept: tuple[Model, StreamSettings, Topology]
        self.kept = deepcopy(self.model), self.core.settings, self.core.topology
        running = self.core, self.model, self.restored
        self.read_back(self.memory.read(Changelogs()))
        self.compare()
        self.core, self.model, self.restored = running

    def lose(self) -> None:
        """Store nothing, though a compaction may have begun or ended, and read back."""
        lost = self.core.take_changes(compact=True)
        self.memory.rows.store.add(Batch(), self.memory.key, lost)
        self.read_back(self.memory.stored())
        self.compare()

    def read_back(self, stored: StoredAggregation) -> None:
        model, rules, topology = self.kept
        self.model, self.restored = deepcopy(model), True
        self.core = self.core_class.restore("scope/stream", rules, topology, stored)


STORE, COMPACT, LOSE, DELETE, TAKE_OVER = "store", "compact", "lose", "delete", "take over"
_rules = st.builds(
    Rules,
    timeout_ms=st.sampled_from([None, 1, 5]),
    hold_limit_ms=st.sampled_from([None, 4, 10]),
    min_writers=st.sampled_from([0, 0, 2]),
    resolution_ms=st.sampled_from([0, 0, 3]),
    retention_ms=st.sampled_from([None, 0, 0, 2]),
)
_ticks = st.builds(
    Tick, st.just(1), st.sampled_from([0, 0, 1, 6]), then_pass=st.sampled_from([False, True])
)
_steps: st.SearchStrategy[Step] = mixed(
    (24, scripts.notes),
    (4, scripts.registers),
    (4, scripts.leaves | st.builds(Expire, scripts.writers)),
    (1, scripts.scales),
    (2, st.builds(Change, _rules)),
    (6, _ticks),
)
_ends = st.sampled_from([*[STORE] * 6, *[COMPACT] * 3, LOSE, DELETE, TAKE_OVER])
_turns = st.tuples(st.sampled_from([0, 0, 0, 1]), st.lists(_steps, max_size=10), _ends)
_stories = st.integers(1, 30).flatmap(
    lambda count: st.lists(_turns, min_size=count, max_size=count)
)


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    """One database for all examples, each of which begins with empty tables."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        metadata.create_all(connection)
        yield connection
    engine.dispose()


def _take_over(rows: Rows, stored: Iterable[Stream]) -> None:
    """Read all back as a start does, beside rows of deleted streams."""
    rows.store = Changelogs()
    by_key = {stream.memory.key: stream for stream in stored}
    keys = sorted(by_key)
    for key, read in zip(keys, rows.store.restore(rows.connection, keys), strict=True):
        by_key[key].read_back(read)
        by_key[key].compare()


@given(
    shape=scripts.shapes,
    rules=_rules,
    story=_stories,
    restated=st.sampled_from([1, 2, 256]),
)
def test_what_is_stored_is_what_there_is(
    connection: Connection,
    shape: Shape,
    rules: Rules,
    story: list[tuple[int, list[Step], str]],
    restated: int,
) -> None:
    for table in (changelog, marks, streams):
        connection.execute(delete(table))
    rows, house = Rows(connection), dict[int, Stream]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegauge.aggregation.changelog._RESTATED", restated)
        for slot, steps, end in story:
            if slot not in house:
                house[slot] = Stream(shape, rules, memory=Stored(rows=rows))
            run_script(house[slot], steps)
            house[slot].run_pass()
            if end == LOSE:
                house[slot].lose()
            elif end == DELETE:
                rows.delete(house.pop(slot).memory.key)
            else:
                house[slot].commit(compact=end == COMPACT)
            if end == TAKE_OVER:
                _take_over(rows, house.values())
