"""The core and the model side by side: the same happens to both, and they must agree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.property.events import Offsets, Shape, count_in
from tests.property.memory import Memory
from tests.property.model import Clocks, Model, ModelMark, Rules
from tests.property.topologies import core_topology
from tidegauge.aggregation.outcomes import Registration
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.errors import ProblemError
from tidegauge.marks import Mark
from tidegauge.topology import KeyRange, Segment

RANGE = KeyRange(0, 1)


def core_settings(rules: Rules) -> StreamSettings:
    return StreamSettings(
        aggregation_timeout_ms=rules.timeout_ms,
        hold_limit_ms=rules.hold_limit_ms,
        min_writers=rules.min_writers,
        mark_interval_ms=0,
        mark_resolution_ms=rules.resolution_ms,
        writer_retention_ms=rules.retention_ms,
        max_future_skew_ms=rules.skew_ms,
    )


@dataclass
class Pair:
    """One stream, twice."""

    shape: Shape
    rules: Rules
    core_class: type[Aggregator] = Aggregator
    clocks: Clocks = field(default_factory=lambda: Clocks(0, 0))
    memory: Memory = field(default_factory=Memory)
    restored: bool = False
    """Whether the core was restored, and has had no pass since."""

    def __post_init__(self) -> None:
        self.model = Model(self.shape, self.rules)
        topology = core_topology(self.shape)
        self.core = self.core_class("scope/stream", core_settings(self.rules), topology)

    @property
    def now(self) -> Now:
        return Now(*self.clocks)

    def tick(self, wall_ms: int, listening_ms: int) -> None:
        self.clocks = Clocks(
            self.clocks.wall_ms + wall_ms, self.clocks.listening_ms + listening_ms
        )

    def note(
        self,
        writer: str,
        time: int,
        position: Offsets,
        *,
        incarnation: int | None,
        tails: Offsets | None = None,
    ) -> str:
        expected = self.model.note(
            writer, time, position, incarnation=incarnation, clocks=self.clocks, tails=tails
        )
        return _agreed(
            expected,
            lambda: self.core.note_time(
                writer, time, position, incarnation=incarnation, now=self.now, tails=tails
            ),
        )

    def register(
        self,
        writer: str,
        *,
        time: int | None = None,
        appended: Offsets | None = None,
        registration_id: str | None = None,
    ) -> str:
        made = self.model.made_by(writer, registration_id)
        expected = self.model.register(
            writer,
            time=time,
            appended=appended or {},
            registration_id=registration_id,
            clocks=self.clocks,
        )
        answers = list[Registration]()
        result = _agreed(
            expected,
            lambda: answers.append(
                self.core.register(
                    writer,
                    time=time,
                    appended=appended,
                    registration_id=registration_id,
                    now=self.now,
                )
            ),
        )
        for answer in answers:
            assert answer.is_repeated == (made is not None)
            self._compare_answer(writer, answer, made)
        return result

    def _compare_answer(self, writer: str, answer: Registration, made: int | None) -> None:
        record = self.model.writers[writer]
        assert answer.incarnation == (record.incarnation if made is None else made)
        assert answer.watermark == self.model.watermark
        assert answer.time == (record.stand if record.live else None)
        assert answer.state == self.model.state(writer)
        assert self.model.shape.events_of(answer.position) == record.position

    def leave(
        self,
        writer: str,
        *,
        last: tuple[int, Offsets] | None = None,
        incarnation: int | None,
    ) -> str:
        expected = self.model.leave(
            writer, last=last, incarnation=incarnation, clocks=self.clocks
        )
        time, position = last or (None, None)
        return _agreed(
            expected,
            lambda: self.core.leave(
                writer, time=time, position=position, incarnation=incarnation, now=self.now
            ),
        )

    def expire(self, writer: str) -> str:
        expected = self.model.expire(writer, clocks=self.clocks)
        return _agreed(expected, lambda: self.core.expire(writer, now=self.now))

    def run_pass(self) -> None:
        self.restored = False
        due = self._due()
        outcome = self.core.run_pass(self.now)
        expected = self.model.run_pass(self.clocks)
        assert self.shown(outcome.marks) == self.expected(expected.marks)
        assert outcome.expired == expected.expired
        assert outcome.forgotten == expected.forgotten
        assert due or not any(expected), "a pass was due and nothing said so"
        if outcome.forgotten:
            self.commit()

    def seal(self, lengths: Offsets) -> str:
        if self.model.final:
            expected = None
        else:
            expected = self.expected(self.model.seal(lengths, self.clocks))
        try:
            marks = self.core.seal(lengths, self.now).marks
        except ProblemError as error:
            assert expected is None
            return error.code
        assert self.shown(marks) == expected
        self.commit()
        return "accepted"

    def length_of(self, number: int) -> int:
        """Return how many events of a segment anybody reported, forgotten writers included."""
        known = [writer.position for writer in self.model.writers.values()]
        return max(count_in(events, number) for events in (self.model.covered, *known))

    def scale(self, seal: Offsets, added: dict[int, tuple[int, ...]]) -> None:
        if self.model.final:
            return
        self.model.scale(seal, added)
        segments = [Segment(number, RANGE, before) for number, before in added.items()]
        self.core.change_topology(self.core.topology.scaled(seal, segments))

    def change_rules(self, rules: Rules) -> None:
        # A look that found nothing is not stored: what a gap counted by it under the old limit is
        # not known after a restart, before the first pass.
        if self.restored:
            self.run_pass()
        self.model.rules = rules
        self.core.change_settings(core_settings(rules))

    def commit(self, *, compact: bool = False) -> None:
        """Store what changed, and more of what is there if the log is to be compacted."""
        self.memory.apply(self.core.take_changes(compact=compact))

    def restart(self) -> None:
        """Go on with a core made from what was stored."""
        self.commit()
        self.restored = True
        self.core = self.core_class.restore(
            "scope/stream", self.core.settings, self.core.topology, self.memory.stored()
        )

    def compare(self) -> None:
        """What can be seen from outside is the same."""
        assert self.core.watermark == self.model.watermark
        assert self.core.revision == len(self.model.marks)
        assert self.core.final == self.model.final
        statuses = {status.writer: status for status in self.core.inspect(self.now).statuses()}
        assert statuses.keys() == self.model.writers.keys()
        for name, status in statuses.items():
            writer = self.model.writers[name]
            assert status.state == self.model.state(name)
            assert status.incarnation == writer.incarnation
            assert status.time == writer.time
            assert self.model.shape.events_of(status.position) == writer.position
            assert (status.stand, status.grace) == (writer.stand, writer.grace)
            clocks = (status.silent_for_ms, status.standing_for_ms)
            assert clocks == self.model.clocks_of(name, self.clocks)
        self._compare_explanation()

    def _compare_explanation(self) -> None:
        explanation = self.core.inspect(self.now).explain()
        writers = self.model.writers.values()
        holders = [writer.name for writer in writers if self.model.holds(writer)]
        assert sorted(one.writer for one in explanation.holders) == sorted(holders)
        assert sorted(explanation.waiting) == sorted(self.model.waiting())

    def shown(self, marks: Sequence[Mark]) -> list[tuple[int, int, int, dict[int, int]]]:
        return [(one.revision, one.lower, one.upper, dict(one.cut)) for one in marks]

    def expected(
        self, marks: Sequence[ModelMark]
    ) -> list[tuple[int, int, int, dict[int, int]]]:
        return [
            (one.revision, one.lower, one.upper, self.model.shape.cut_of(one.events))
            for one in marks
        ]

    def _due(self) -> bool:
        deadline = self.core.next_deadline()
        reached = deadline is not None and deadline <= self.clocks.listening_ms
        return self.core.pass_due or reached


def _agreed(expected: str, call: Callable[[], object]) -> str:
    """Call the core, which must refuse what the model refuses, and for the same reason."""
    result = "accepted"
    try:
        call()
    except ProblemError as error:
        result = error.code
    assert result == expected
    return result
