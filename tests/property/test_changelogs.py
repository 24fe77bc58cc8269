"""What a changelog stores is what there is, whatever fails, restarts, or is compacted meanwhile.

Several streams share the tables, and each is compared with the model whenever it was read back.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
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
from tests.property.scripts import Step, mixed
from tidegauge.aggregation.changes import Changes, StoredAggregation
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.topology import Topology


@dataclass
class Rows:
    """The changelogs of all streams: what several of them store next is one transaction."""

    connection: Connection
    store: Changelogs = field(default_factory=Changelogs)
    batch: Batch = field(default_factory=Batch)
    stored: set[int] = field(default_factory=set)
    last_key: int = 0

    def add(self, key: int, changes: Changes) -> None:
        if key in self.stored:
            self.write()
        self.stored.add(key)
        self.store.add(self.batch, key, changes)

    def write(self) -> None:
        self.batch.carry_out(self.connection)
        self.batch, self.stored = Batch(), set()

    def create(self) -> int:
        """Insert a stream, and return its key."""
        self.last_key = key = self.last_key + 1
        texts = dict.fromkeys(("scope", "stream", "stream_id", "config", "topology"), str(key))
        self.connection.execute(insert(streams).values(key=key, created_ms=0, **texts))
        return key

    def delete(self, key: int) -> None:
        """Delete a stream, whose other rows are not purged yet."""
        self.write()
        self.store.forget(key)
        self.connection.execute(delete(streams).where(streams.c.key == key))


@dataclass
class Stored(Memory):
    """A part of the changelogs."""

    rows: Rows = field(kw_only=True)

    def __post_init__(self) -> None:
        self.key = self.rows.create()

    def apply(self, changes: Changes) -> None:
        self.rows.add(self.key, changes)

    def stored(self) -> StoredAggregation:
        self.rows.write()
        (stored,) = self.rows.store.restore(self.rows.connection, [self.key])
        return stored


@dataclass
class Stream(Pair):
    """One that may lose a transaction, and then is what was stored before."""

    memory: Stored = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.commit()

    def commit(self, *, compact: bool = False) -> None:
        super().commit(compact=compact)
        self.kept: tuple[Model, StreamSettings, Topology]
        self.kept = deepcopy(self.model), self.core.settings, self.core.topology

    def lose(self) -> None:
        """Store nothing, though a compaction may have begun or ended, and read back."""
        self.memory.rows.write()
        lost = self.core.take_changes(compact=True)
        self.memory.rows.store.add(Batch(), self.memory.key, lost)
        self.read_back(self.memory.stored())
        self.compare()

    def read_back(self, stored: StoredAggregation) -> None:
        model, rules, topology = self.kept
        self.model, self.restored = deepcopy(model), True
        self.core = self.core_class.restore("scope/stream", rules, topology, stored)


LOSE, DELETE, TAKE_OVER = "lose a transaction", "delete a stream", "take over"
_steps: st.SearchStrategy[Step | str] = mixed(
    *scripts.usual_steps,
    *scripts.steps_of_storage,
    (6, st.just(LOSE)),
    (4, st.sampled_from([DELETE, TAKE_OVER, TAKE_OVER, TAKE_OVER])),
)
_stories = scripts.of_any_length(st.tuples(st.sampled_from([0, 0, 0, 1]), _steps))


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
    rows.write()
    rows.store = Changelogs()
    by_key = {stream.memory.key: stream for stream in stored}
    keys = sorted(by_key)
    for key, read in zip(keys, rows.store.restore(rows.connection, keys), strict=True):
        by_key[key].read_back(read)
        by_key[key].compare()


@settings(max_examples=settings().max_examples // 2)
@given(
    shape=scripts.shapes,
    rules=scripts.rules,
    story=_stories,
    restated=st.sampled_from([1, 2, 256]),
)
def test_what_is_stored_is_what_there_is(
    connection: Connection,
    shape: Shape,
    rules: Rules,
    story: list[tuple[int, Step | str]],
    restated: int,
) -> None:
    for table in (changelog, marks, streams):
        connection.execute(delete(table))
    rows, house = Rows(connection), dict[int, Stream]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegauge.aggregation.changelog._RESTATED", restated)
        for slot, step in [*story, (0, TAKE_OVER)]:
            if slot not in house:
                house[slot] = Stream(shape, rules, memory=Stored(rows=rows))
            if step == DELETE:
                rows.delete(house.pop(slot).memory.key)
            elif step == TAKE_OVER:
                _take_over(rows, house.values())
            elif isinstance(step, str):
                house[slot].lose()
            else:
                step.run(house[slot])
                house[slot].compare()
