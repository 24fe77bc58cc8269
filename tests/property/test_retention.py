"""Old marks go, a few at a time while groups move, and every promise still holds."""

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, delete, insert

from controller.background import retention
from controller.background.purging import Pace
from controller.background.retention import Sweeper
from controller.database.statements import insert_rows
from controller.schema import marks as marks_table
from controller.schema import metadata, reader_groups, streams
from controller.store.groups import GroupSettings, StoredGroup, insert_group
from controller.store.marks import StoredMarks, dump_position
from tests.patience import until
from tests.property.events import Shape
from tests.property.topologies import core_topology, positions, shapes
from tidegauge.groups import start
from tidegauge.lattice import covers, cut_of, join
from tidegauge.marks import Mark
from tidegauge.names import StreamName
from tidegauge.retention import parse_thinning
from tidegauge.topology import Position, Topology
from tidegauge.windows import TimeWindow, time_window

KEY = 1
NAME = "s/one"
STREAM: dict[str, Any] = {
    "key": KEY,
    "scope": "s",
    "stream": "one",
    "stream_id": "id-of-one",
    "created_ms": 0,
    "config": "{}",
    "topology": "{}",
}
NOW = 1_000
TEN_DAYS_MS = 864_000_000
Ages = list[tuple[Mark, int]]


@st.composite
def histories(draw: st.DrawFn) -> tuple[Shape, Ages]:
    """A stream's marks, from any number of passes, and when each was made."""
    shape = draw(shapes())
    topology = core_topology(shape)
    reach: Position = {}
    lower, upper, made = -20, -20, 0
    found = []
    for revision in range(1, draw(st.integers(2, 25))):
        reach = join(topology, [reach, draw(positions(shape))])
        lower += draw(st.integers(1, 9))
        upper = max(upper, lower) + draw(st.sampled_from([0, 0, 5]))
        made = min(NOW, max(0, made + draw(st.sampled_from([0, 30, 200, -50]))))
        found.append((Mark(revision, lower, upper, cut_of(topology, reach)), made))
    return shape, found


class Stage:
    """One stream in a database, its groups, and a sweeper that reads and writes there.

    ``before_write`` happens between what a sweep has read and what it decides. Its clocks stand
    unless they are moved.
    """

    def __init__(
        self,
        connection: Connection,
        topology: Topology,
        history: Ages,
        *,
        thinning: str,
        retention_ms: int | None = None,
        embedded: bool = False,
    ) -> None:
        self.connection, self.topology = connection, topology
        self.wall_ms, self.monotonic_s = NOW, 0.0
        self.reads = 0
        self.groups: list[Position] = []
        self.before_write: Callable[[], None] = lambda: None
        for table in (marks_table, reader_groups, streams):
            connection.execute(delete(table))
        connection.execute(insert(streams).values(STREAM))
        self.add(history)
        self.state: Any = SimpleNamespace(
            identity=SimpleNamespace(key=KEY, name=NAME, stream_id=STREAM["stream_id"]),
            aggregator=SimpleNamespace(topology=topology),
            config=SimpleNamespace(mark_retention_ms=retention_ms),
            log=SimpleNamespace(tails={} if embedded else None),
            now=lambda: SimpleNamespace(wall_ms=self.wall_ms),
            revision=history[-1][0].revision,
            deleted=False,
        )
        self.thinning = parse_thinning(thinning)

    def add(self, history: Ages) -> None:
        rows = [
            (KEY, one.revision, one.lower, one.upper, dump_position(one.cut), made)
            for one, made in history
        ]
        insert_rows(self.connection, marks_table, rows)

    def pass_time(self, milliseconds: int) -> None:
        self.wall_ms += milliseconds
        self.monotonic_s += milliseconds / 1_000

    async def read(self, work: Callable[[Connection], Any]) -> Any:
        self.reads += 1
        return work(self.connection)

    async def change(self, work: Callable[[Connection], Any]) -> Any:
        self.before_write()
        self._store_groups()
        return work(self.connection)

    def _store_groups(self) -> None:
        self.connection.execute(delete(reader_groups))
        wanted = GroupSettings(
            streams=[NAME],
            stream_ids={NAME: STREAM["stream_id"]},
            heartbeat_ms=1,
            dead_after_ms=1,
        )
        for number, position in enumerate(self.groups):
            state = start({NAME: self.topology}, {NAME: position})
            group = StoredGroup(StreamName("s", f"g{number}"), wanted, state)
            insert_group(self.connection, group)

    def sweep(self, rows: int) -> None:
        async def run() -> None:
            sweeper = self.sweeper(rows)
            while await sweeper.sweep(self.state):
                pass

        asyncio.run(run())

    def sweeper(self, rows: int = 500) -> Sweeper:
        registry: Any = [self.state]
        database: Any = self
        pace, clock = Pace(most_rows=rows, rest=0), self._monotonic_s
        return Sweeper(registry, database, self.thinning, pace, monotonic_s=clock)

    def _monotonic_s(self) -> float:
        return self.monotonic_s

    def left(self) -> list[Mark]:
        return StoredMarks(self.connection, KEY).after(0, limit=1_000)

    def window(self, position: Position) -> TimeWindow:
        marks = StoredMarks(self.connection, KEY)
        return time_window(self.topology, marks, position)


@pytest.fixture(scope="module")
def database() -> Iterator[Connection]:
    """One database for all examples: each fills the table of marks anew."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        metadata.create_all(connection)
        yield connection
    engine.dispose()


def _at_most(one: int | None, other: int | None) -> bool:
    return one is None or (other is not None and one <= other)


def _at_least(one: int | None, other: int | None) -> bool:
    return one is None or (other is not None and one >= other)


RULES = st.fixed_dictionaries(
    {
        "thinning": st.sampled_from(["100:4", "100:4,400:12", "1:1000", ""]),
        "retention_ms": st.none() | st.integers(1, 600),
        "embedded": st.booleans(),
    }
)
ROWS = st.integers(1, 12)
FEW = settings(max_examples=settings().max_examples * 3 // 5)


@FEW
@given(histories(), RULES, ROWS, st.data())
def test_a_lookup_after_a_sweep_never_stops_earlier_starts_later_or_claims_more(
    database: Connection,
    history: tuple[Shape, Ages],
    rules: dict[str, Any],
    rows: int,
    data: st.DataObject,
) -> None:
    shape, made = history
    topology = core_topology(shape)
    stage = Stage(database, topology, made, **rules)
    position = data.draw(positions(shape))
    time = data.draw(st.integers(-25, 200))
    before, window = stage.left(), stage.window(position)
    stop = StoredMarks(database, KEY).first_from(time)
    start = StoredMarks(database, KEY).newest_with_upper_below(time)
    stage.sweep(rows)
    after = stage.left()
    assert after[-1] == before[-1]
    assert set(after_revisions := [one.revision for one in after]) <= {
        one.revision for one in before
    }
    assert after_revisions == sorted(set(after_revisions))
    swept = stage.window(position)
    assert _at_most(swept.lower, window.lower)
    assert _at_least(swept.upper, window.upper)
    later = StoredMarks(database, KEY).first_from(time)
    assert (later is None) is (stop is None)
    if later is not None and stop is not None:
        assert covers(topology, later.cut, stop.cut)
    earlier = StoredMarks(database, KEY).newest_with_upper_below(time)
    if earlier is not None:
        assert start is not None
        assert covers(topology, start.cut, earlier.cut)


@FEW
@given(histories(), RULES, ROWS, st.data())
def test_a_sweep_never_lowers_the_window_of_a_group_that_moves_meanwhile(
    database: Connection,
    history: tuple[Shape, Ages],
    rules: dict[str, Any],
    rows: int,
    data: st.DataObject,
) -> None:
    shape, made = history
    topology = core_topology(shape)
    stage = Stage(database, topology, made, **rules)
    stage.groups = data.draw(st.lists(positions(shape), max_size=2))
    known: list[TimeWindow] = []

    def move() -> None:
        check()
        step = data.draw(st.lists(positions(shape), max_size=2))
        moved = [join(topology, pair) for pair in zip(stage.groups, step, strict=False)]
        stage.groups = [*moved, *stage.groups[len(moved) :], *step[len(moved) :]]
        known[:] = [stage.window(one) for one in stage.groups]

    def check() -> None:
        for window, position in zip(known, stage.groups, strict=False):
            assert stage.window(position).lower == window.lower

    stage.before_write = move
    stage.sweep(rows)
    check()


@FEW
@given(histories(), ROWS)
def test_whatever_the_size_of_its_steps_a_sweep_leaves_the_first_mark_of_each_step_of_time(
    database: Connection, history: tuple[Shape, Ages], rows: int
) -> None:
    shape, unsorted = history
    made = list(
        zip((one for one, _ in unsorted), sorted(when for _, when in unsorted), strict=True)
    )
    stage = Stage(database, core_topology(shape), made, thinning="100:4,400:12")
    stage.sweep(rows)
    old = [
        max((at for at, (_, when) in enumerate(made[:-1]) if when <= NOW - age), default=-1)
        for age in (100, 400)
    ]
    expected = []
    seen: set[tuple[int, int]] = set()
    for at, (mark, _) in enumerate(made):
        step = 12 if at <= old[1] else 4 if at <= old[0] else 1
        if (step, mark.lower // step) not in seen:
            expected.append(mark.revision)
        seen |= {(one, mark.lower // one) for one in (1, 4, 12)}
    assert [one.revision for one in stage.left()] == expected


def _marks_made(revisions: range, made_ms: int) -> Ages:
    return [(Mark(n, 100 * n, 100 * n, {0: n}), made_ms) for n in revisions]


@pytest.mark.parametrize(("step_ms", "looks"), [(TEN_DAYS_MS, 2), (-TEN_DAYS_MS, 1)])
def test_a_wall_clock_that_was_wrong_for_a_moment_stops_no_thinning(
    database: Connection, monkeypatch: pytest.MonkeyPatch, step_ms: int, looks: int
) -> None:
    monkeypatch.setattr(retention, "_PERIOD_S", 0.001)
    made = _marks_made(range(1, 31), NOW)
    stage = Stage(database, core_topology(Shape.of(1)), made, thinning="2000:1000")

    async def scene() -> None:
        stage.wall_ms += step_ms
        sweeping = asyncio.create_task(stage.sweeper().run())
        await until(lambda: stage.reads == looks)
        stage.wall_ms -= step_ms
        stage.add(_marks_made(range(31, 51), NOW))
        stage.pass_time(3_600_000)
        expected = [1, 10, 20, 30, 40, 50]
        await until(lambda: [one.revision for one in stage.left()] == expected)
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)

    asyncio.run(scene())


def test_old_marks_are_thinned_to_one_a_second_and_later_to_one_a_minute() -> None:
    assert [tuple(one) for one in parse_thinning("3600000:1000,86400000:60000")] == [
        (3_600_000, 1_000),
        (86_400_000, 60_000),
    ]
    assert parse_thinning("") == ()


@pytest.mark.parametrize(
    "text", ["1", "1:2:3", "0:1", "5:-1", "5:1,5:2", "9:1,5:2", "1:10,2:15", "a:b", "1:\u0662"]
)
def test_thinning_that_would_depend_on_when_it_happens_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"AGE:STEP|ages must rise"):
        parse_thinning(text)
