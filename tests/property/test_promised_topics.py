"""Observers of a topic in which a changefeed keeps its promises: no record beyond a mark is older than it.

The service is the core itself. Observers are killed, share the partitions, hear late that they lost one,
and lose answers; partitions are added. The feed promises in each partition by itself; only in a new
one it writes nothing older than what it promised anywhere before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.scripts import of_any_length
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.errors import ProblemError, WriterFencedError
from tidegauge.marks import Mark
from tidegauge.topology import KeyRange, Segment, Topology
from writer_client.observing.observation import Row, resume_at
from writer_client.observing.partition import Look
from writer_client.observing.promises import PromiseObservation

MOST = 4
"""Partitions."""
LIVE = {"joining", "active", "behind"}
FAR = 2**62


class Record(NamedTuple):
    """A row, or a promise."""

    time: int
    is_promise: bool


@dataclass
class Feed:
    """A topic, and what its changefeed has promised in each partition."""

    logs: list[list[Record]]
    floors: list[int]

    @classmethod
    def of(cls, partitions: int) -> "Feed":
        return cls([[] for _ in range(partitions)], [0] * partitions)

    @property
    def ends(self) -> dict[int, int]:
        return {number: len(log) for number, log in enumerate(self.logs)}

    def write(self, partition: int, time: int) -> None:
        number = partition % len(self.logs)
        self.logs[number].append(Record(self.floors[number] + time, is_promise=False))

    def promise(self, partition: int, rise: int) -> None:
        """Promise a time, or one again that was promised before."""
        number = partition % len(self.logs)
        time = self.floors[number] + rise
        self.logs[number].append(Record(time, is_promise=True))
        self.floors[number] = max(time, self.floors[number])

    def add_partition(self) -> None:
        if len(self.logs) < MOST:
            self.logs.append([])
            self.floors.append(max(self.floors))


@dataclass(eq=False)
class Observer:
    """A process, its partitions and their incarnations, and a look that is under way."""

    observation: PromiseObservation = field(
        default_factory=lambda: PromiseObservation(checks=False)
    )
    incarnations: dict[str, int] = field(default_factory=dict)
    first_ends: dict[int, int] = field(default_factory=dict)
    read_before: dict[int, int] | None = None
    seen: dict[int, int] = field(default_factory=dict)


def new_core(settings: StreamSettings) -> Aggregator:
    segments = [Segment(number, KeyRange(0, 1)) for number in range(MOST)]
    return Aggregator("shop/orders", settings, Topology(segments))


@dataclass
class World:
    """The feed, two observers, and the service."""

    feed: Feed
    since: str = "beginning"
    settings: StreamSettings = field(
        default_factory=lambda: StreamSettings(
            aggregation_timeout_ms=None,
            hold_limit_ms=None,
            mark_resolution_ms=0,
            max_future_skew_ms=None,
        )
    )
    resolution_ms: int = 0
    observers: list[Observer] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    now_ms: int = 0

    def __post_init__(self) -> None:
        self.core = new_core(self.settings)
        self.observers = [self.started(), self.started()]

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def started(self) -> Observer:
        observer = Observer(first_ends=dict(self.feed.ends))
        observer.observation.resolution_ms = self.resolution_ms
        return observer

    def assign(self, observer: Observer, numbers: Iterable[int], *, tells: bool) -> None:
        """Give partitions to an observer; who had them hears of it now, or never."""
        observation = observer.observation
        own = [n for n in numbers if n not in observation.partitions]
        if tells:
            for other in self.observers:
                for number in own:
                    other.observation.revoke(number)
        for number in own:
            registration = self.core.register(str(number), now=self.now)
            observer.incarnations[str(number)] = registration.incarnation
            begin = observer.first_ends.get(number, 0) if self.since == "end" else 0
            resume = resume_at([registration.position], number)
            observation.partitions.assign(number, begin if resume is None else resume)
            observation.sources.expect(str(number), number)
            observation.admit(str(number), registration.time, self.now_ms)
        observation.register(own)

    def read(self, observer: Observer, number: int, most: int) -> None:
        """Read some of a partition, unless it is paused."""
        observation = observer.observation
        place = observation.partitions.get(number)
        if place is None or number in observation.ahead(observer.seen):
            return
        for offset in range(
            place.read_to, min(place.read_to + most, len(self.feed.logs[number]))
        ):
            time, is_promise = self.feed.logs[number][offset]
            promise, event_time = (time, None) if is_promise else (None, time)
            row = Row(str(number), number, offset, event_time, None, promise)
            observation.read(row, latest_ms=FAR, wall_ms=0)

    def begin_look(self, observer: Observer) -> None:
        observer.read_before = dict(observer.observation.partitions.position)

    def end_look(self, observer: Observer) -> None:
        if observer.read_before is None:
            return
        observation, read, observer.read_before = (
            observer.observation,
            observer.read_before,
            None,
        )
        observer.seen = ends = self.feed.ends
        observation.partitions.look(Look(0, ends))
        if missing := observation.unregistered(ends):
            statuses = self.core.inspect(self.now).statuses()
            known = {one.writer for one in statuses if one.state in LIVE}
            observation.register(number for number in missing if str(number) in known)
            observation.unregistered(ends)
        observation.clear(read)

    def report(self, observer: Observer, *, is_heard: bool = True) -> None:
        """Note what is due; if the answer is lost, the service has it all the same."""
        observation = observer.observation
        for note in observation.notes(self.now_ms):
            incarnation = observer.incarnations[note.writer]
            try:
                self.core.note_time(
                    note.writer, note.time, note.position, now=self.now, incarnation=incarnation
                )
            except WriterFencedError:
                observation.sources.give_up(note.writer)
            except ProblemError as problem:
                pytest.fail(str(problem))
            else:
                if is_heard:
                    observation.accept(note, self.now_ms)
        outcome = self.core.run_pass(self.now)
        self.marks += outcome.marks
        self.expired += outcome.expired

    def check(self) -> None:
        for mark in self.marks:
            for number, log in enumerate(self.feed.logs):
                rows = [one for one in log[mark.cut.get(number, 0) :] if not one.is_promise]
                assert all(one.time >= mark.lower for one in rows), (mark, number)


class Act(NamedTuple):
    """Something that happens, to an observer or a partition."""

    what: str
    who: int
    number: int
    size: int

    def run(self, world: World) -> None:  # noqa: C901, PLR0912 (one line for each)
        observer = world.observers[self.who]
        match self.what:
            case "write":
                world.feed.write(self.number, self.size)
            case "promise":
                world.feed.promise(self.number, self.size)
            case "repeat":
                world.feed.promise(self.number, -self.size)
            case "add":
                world.feed.add_partition()
            case "assign":
                world.assign(observer, [self.number % len(world.feed.logs)], tells=True)
            case "assign all":
                world.assign(observer, range(len(world.feed.logs)), tells=True)
            case "steal":
                world.assign(observer, [self.number % len(world.feed.logs)], tells=False)
            case "kill":
                world.observers[self.who] = world.started()
            case "read":
                world.read(observer, self.number % len(world.feed.logs), 1 + self.size)
            case "turn":
                for number in range(len(world.feed.logs)):
                    world.read(observer, number, 1 + self.size)
                world.report(observer)
            case "look":
                world.begin_look(observer)
                world.end_look(observer)
            case "begin look":
                world.begin_look(observer)
            case "end look":
                world.end_look(observer)
            case "report":
                world.report(observer)
            case "report in vain":
                world.report(observer, is_heard=False)


_WEIGHTS = {
    "write": 10,
    "promise": 10,
    "turn": 10,
    "look": 4,
    "begin look": 2,
    "end look": 2,
    "read": 3,
    "report": 2,
    "report in vain": 1,
    "repeat": 1,
    "add": 2,
    "assign": 1,
    "assign all": 1,
    "steal": 1,
    "kill": 1,
}
_acts = of_any_length(
    st.builds(
        Act,
        st.sampled_from([what for what, weight in _WEIGHTS.items() for _ in range(weight)]),
        st.sampled_from([0, 0, 1]),
        st.integers(0, MOST - 1),
        st.integers(0, 4),
    )
)


@given(
    partitions=st.integers(1, 3),
    since=st.sampled_from(["beginning", "end"]),
    resolution_ms=st.sampled_from([0, 3]),
    acts=_acts,
)
def test_no_record_beyond_a_mark_is_older_than_it(
    partitions: int, since: str, resolution_ms: int, acts: Sequence[Act]
) -> None:
    world = World(Feed.of(partitions), since=since, resolution_ms=resolution_ms)
    world.assign(world.observers[0], range(partitions), tells=True)
    for act in acts:
        act.run(world)
    world.check()


_runs = st.lists(st.tuples(st.integers(0, 25), st.integers(1, 3)), max_size=3)
"""So many rows, and then a promise that is so much higher."""


@given(backlogs=st.lists(_runs, min_size=2, max_size=3), most=st.integers(1, 2))
def test_a_backlog_is_noted_to_its_end_and_nobody_expires_meanwhile(
    backlogs: list[list[tuple[int, int]]], most: int
) -> None:
    feed = Feed.of(len(backlogs))
    for number, runs in enumerate(backlogs):
        for rows, rise in runs:
            for _ in range(rows):
                feed.write(number, 1)
            feed.promise(number, rise)
    last = max(feed.floors) + 1
    for number, floor in enumerate(feed.floors):
        feed.promise(number, last - floor)
    # Between two promises it reads for 125 ms at most; for half of the limit time passes by itself.
    settings = StreamSettings(
        aggregation_timeout_ms=30,
        hold_limit_ms=260,
        mark_resolution_ms=0,
        max_future_skew_ms=None,
    )
    world = World(feed, settings=settings)
    observer = world.observers[0]
    world.assign(observer, feed.ends, tells=True)
    observer.observation.beat_ms = 10
    while observer.observation.partitions.position != feed.ends or world.core.watermark != last:
        world.begin_look(observer)
        world.end_look(observer)
        for number in feed.ends:
            world.read(observer, number, most)
        world.report(observer)
        world.now_ms += 5
        assert (world.now_ms < 5_000, world.expired) == (True, [])
    world.check()


_records = st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=40)


@given(_records)
def test_rows_below_a_promise_and_promises_that_fall_are_counted_and_named(
    records: list[tuple[bool, int]],
) -> None:
    observation = PromiseObservation(checks=True)
    observation.partitions.assign(0, 0)
    observation.sources.expect("0", 0)
    late, fallen, promised = list[tuple[str, int, int]](), 0, -1
    for offset, (is_promise, time) in enumerate(records):
        promise, event_time = (time, None) if is_promise else (None, time)
        row = Row("0", 0, offset, event_time, None, promise)
        observation.read(row, latest_ms=FAR, wall_ms=0)
        late += [("0", time, promised)] if time < promised and not is_promise else []
        fallen += is_promise and time < promised
        promised = max(promised, time) if is_promise else promised
    counts = observation.sources.counts
    assert (counts.late, counts.fallen, counts.unreadable) == (len(late), fallen, 0)
    assert counts.first_late == (late[0] if late else None)
