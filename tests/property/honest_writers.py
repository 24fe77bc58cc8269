"""Writers that keep their promise: they write events, note time, crash, restart, leave, expire.

They are steps of a script like all others; what is random is what happens, never whether a promise
is kept. Every pass is judged by two laws, with books of the world's own: a writer that spoke and
went on within the settings is not dropped, and nobody holds the others beyond them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.property.events import Offsets, Shape
from tests.property.judge import Judge, Written
from tests.property.model import ModelMark, Rules
from tests.property.pair import Pair
from tests.property.scripts import (
    Commit,
    Expire,
    Leave,
    Restart,
    Scale,
    Tick,
    Weighted,
    mixed,
    of_any_length,
)
from tests.property.topologies import SOME
from tidegauge.event_time import FIRST_TIME
from tidegauge.explain.situation import WriterStatus
from tidegauge.marks import Mark

WRITERS = ["a", "b", "c"]


@dataclass(eq=False)
class Process:
    """A running writer: what it promised, and what it wrote and has not reported."""

    writer: str
    incarnation: int | None
    promised: int | None = None
    unreported: dict[int, int] = field(default_factory=dict)


@dataclass
class World(Pair):
    """The log, its writers, and the core that hears only what they report.

    The model follows the core's marks instead of making its own: it only keeps the books that
    the judge needs.
    """

    log: list[Written] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    running: dict[str, Process] = field(default_factory=dict)
    zombies: list[Process] = field(default_factory=list)
    spoke_ms: dict[str, int] = field(default_factory=dict)
    """When the service last heard each writer, in listening time."""
    went_on_ms: dict[str, int] = field(default_factory=dict)
    """When each last noted a time above all before it, and above the watermark."""
    greatest: dict[str, int] = field(default_factory=dict)
    speakers: dict[str, object] = field(default_factory=dict)
    """The process behind each writer's present incarnation."""
    passes: list[tuple[list[ModelMark], list[Mark]]] = field(default_factory=list)
    """The marks that the rules say, and those of the core."""
    judge: Judge = field(default_factory=Judge)

    def write(self, process: Process, segment: int, time: int) -> None:
        """Append an event; its writer sees only the offset after it."""
        growing = self.model.shape.growing
        number = growing[segment % len(growing)]
        end = self.ends.get(number, 0)
        if process.promised is not None:
            time += process.promised
        self.log.append(Written((number, end), time, process.writer, process))
        self.ends[number] = process.unreported[number] = end + 1

    def note_by(self, process: Process, time: int, position: Offsets) -> None:
        """Promise a time; a process that was replaced is fenced, and stops."""
        heard = self.note(process.writer, time, position, incarnation=process.incarnation)
        if process in self.zombies:
            assert heard in {"writer_fenced", "incarnation_required"}
            return
        assert heard == "accepted"
        self.spoke_ms[process.writer] = self.clocks.listening_ms
        if time > max(self.model.watermark or 0, self.greatest.get(process.writer, 0)):
            self.went_on_ms[process.writer] = self.clocks.listening_ms
            self.greatest[process.writer] = time
        self.speakers[process.writer] = process
        process.promised = time
        process.unreported = {}

    def start(self, writer: str, incarnation: int | None) -> Process:
        """Run a new process under a name; one that still runs does not know yet."""
        if writer in self.running:
            self.zombies.append(self.running[writer])
        process = self.running[writer] = Process(writer, incarnation)
        return process

    def run_pass(self) -> None:
        somebody_waits = self.core.inspect(self.now).explain().waiting_count > 0
        outcome = self.core.run_pass(self.now)
        assert not self.core.final, "nobody sealed it"
        assert somebody_waits or not outcome.expired, "somebody expired in a quiet night"
        expired = self.model.begin_pass(self.clocks)
        self.passes.append((self.model.due_marks(), outcome.marks))
        heard = self.judge.hear(outcome.marks, self.model, self.speakers)
        self.model.run_pass(self.clocks, given=heard)
        assert outcome.expired == expired
        for writer in expired:
            self._check_was_due(writer)
        self._check_holds()
        if outcome.forgotten:
            self.commit()

    def _check_was_due(self, writer: str) -> None:
        """Whoever was dropped was silent for the timeout, or stood still for the limit."""
        now_ms, rules = self.clocks.listening_ms, self.rules
        clocks = (
            (rules.timeout_ms, now_ms - self.spoke_ms.get(writer, 0)),
            (rules.hold_limit_ms, now_ms - self.went_on_ms.get(writer, 0)),
        )
        assert any(most is not None and passed >= most for most, passed in clocks), writer

    def _check_holds(self) -> None:
        """Of those that stand lowest none holds the others with a clock that has run out."""
        statuses = self.core.inspect(self.now).statuses()
        holders = [one for one in statuses if one.state in {"joining", "behind"}]
        least = min((_rank(one) for one in holders), default=None)
        for one in (one for one in holders if _rank(one) == least):
            shown = self.model.clocks_of(one.writer, self.clocks)
            for most, passed in zip(
                (self.rules.timeout_ms, self.rules.hold_limit_ms), shown, strict=True
            ):
                assert most is None or passed is None or passed < most, one

    def length_of(self, number: int) -> int:
        """Return how many events of a segment were written, reported or not."""
        return self.ends.get(number, 0)

    def check(self) -> None:
        """Whatever is judged at the end, when all events are written."""
        self.judge.check_invariants()
        self.judge.check_soundness(self.log)
        self.judge.check_needed()


def _rank(status: WriterStatus) -> int:
    return FIRST_TIME if status.stand is None else status.stand


@dataclass(frozen=True)
class Start:
    """A process starts: for the first time, after a crash, or while another one still runs."""

    writer: str
    registers: bool
    time: int | None
    covers_log: bool

    def run(self, world: World) -> None:
        if self.registers:
            self._register(world)
        else:
            self._report_higher(world)

    def _register(self, world: World) -> None:
        appended = dict(world.ends) if self.covers_log else {}
        world.register(self.writer, time=self.time, appended=appended)
        record = world.model.writers[self.writer]
        process = world.start(self.writer, record.incarnation)
        returned = record.stand if record.live else None
        process.promised = returned if self.time is None else self.time
        world.speakers[self.writer] = process

    def _report_higher(self, world: World) -> None:
        record = world.model.writers.get(self.writer)
        process = world.start(self.writer, 1 if record is None else record.incarnation + 1)
        world.note_by(process, self.time or 0, dict(world.ends) if self.covers_log else {})


@dataclass(frozen=True)
class Write:
    """An event, with a time as old as was not excluded."""

    writer: str
    segment: int
    time: int

    def run(self, world: World) -> None:
        process = _process(world, self.writer)
        world.write(process, self.segment, self.time)


@dataclass(frozen=True)
class ZombieWrites:
    """A process that was replaced writes on, and is fenced at its next report."""

    segment: int
    time: int

    def run(self, world: World) -> None:
        for process in world.zombies[-1:]:
            world.write(process, self.segment, self.time)
            record = world.model.writers.get(process.writer)
            if record is not None and record.incarnation > (process.incarnation or 0):
                time = (process.promised or 0) + self.time
                world.note_by(process, time, process.unreported)


@dataclass(frozen=True)
class NoteTime:
    """A promise that covers what was written: exactly, by its frontier, or the whole log."""

    writer: str
    rise: int
    covers: str
    then_pass: bool

    def run(self, world: World) -> None:
        process = _process(world, self.writer)
        positions = {
            "written": process.unreported,
            "frontier": _frontier(world.model.shape, process.unreported),
            "log": dict(world.ends),
        }
        world.note_by(process, (process.promised or 0) + self.rise, positions[self.covers])
        if self.then_pass:
            world.run_pass()


def _frontier(shape: Shape, position: Offsets) -> dict[int, int]:
    """Leave out segments of which a descendant is named: they are implied."""
    implied = {before for number in position for before in shape.ancestors(number)}
    return {number: at for number, at in position.items() if number not in implied}


def _process(world: World, writer: str) -> Process:
    """The running process of a name, or one that never registers."""
    if writer not in world.running:
        record = world.model.writers.get(writer)
        if record is not None and record.incarnation > 0:
            Start(writer, registers=True, time=None, covers_log=False).run(world)
        else:
            world.start(writer, None)
    return world.running[writer]


@dataclass(frozen=True)
class Crash:
    """A process that registered dies with what it has not reported."""

    writer: str

    def run(self, world: World) -> None:
        if self.writer in world.running and world.running[self.writer].incarnation:
            del world.running[self.writer]


Act = (
    Start
    | Write
    | ZombieWrites
    | NoteTime
    | Crash
    | Leave
    | Expire
    | Tick
    | Scale
    | Commit
    | Restart
)


def live_through(world: World, acts: Sequence[Act]) -> None:
    for act in acts:
        act.run(world)
    world.run_pass()
    world.check()


_writers = st.sampled_from(WRITERS)
_rises = st.sampled_from([0, 1, 1, 2, 3, 5])
_covers = st.sampled_from(["written", "written", "frontier", "frontier", "log"])
_leaves = st.builds(Leave, _writers, last=st.none(), spoken=st.just("right"))
_steady: list[Weighted[Act]] = [
    (30, st.builds(Write, _writers, segment=st.integers(0, 3), time=st.integers(0, 5))),
    (
        8,
        st.builds(
            Start,
            _writers,
            registers=st.sampled_from([True, True, False]),
            time=st.none() | st.integers(0, 10),
            covers_log=st.booleans(),
        ),
    ),
    (3, st.builds(ZombieWrites, segment=st.integers(0, 3), time=st.integers(0, 5))),
    (3, st.builds(Crash, _writers)),
    (5, _leaves | st.builds(Expire, _writers)),
    (
        5,
        st.builds(
            Scale, SOME, st.just((0,)), st.lists(SOME, min_size=1, max_size=2).map(tuple)
        ),
    ),
    (4, st.builds(Commit, st.booleans()) | st.builds(Restart)),
]


def _acts(then_pass: list[bool], waits: int) -> st.SearchStrategy[list[Act]]:
    notes = st.builds(
        NoteTime, _writers, rise=_rises, covers=_covers, then_pass=st.sampled_from(then_pass)
    )
    pauses = st.sampled_from([0, 1, 4, 5, 6, 10]).map(lambda ms: Tick(ms, ms, then_pass=True))
    return of_any_length(mixed((30, notes), (waits, pauses), *_steady))


acts = _acts([False, False, True], 15)
acts_with_few_passes = _acts([False], 2)
rules = st.builds(
    Rules,
    timeout_ms=st.sampled_from([None, 5, 10]),
    hold_limit_ms=st.sampled_from([None, 8, 30]),
    min_writers=st.sampled_from([0, 0, 2]),
    resolution_ms=st.sampled_from([0, 0, 2]),
    retention_ms=st.sampled_from([None, 0, 5]),
)
