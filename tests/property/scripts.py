"""Random scripts of what may happen to a stream; each step makes sense of its own numbers."""

from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, TypeVar

from hypothesis import strategies as st

from tests.property.events import Shape
from tests.property.model import END_OF_TIME, Rules
from tests.property.pair import Pair
from tests.property.topologies import SOME, chosen

WRITERS = ["a", "b", "c", "d"]
UNKNOWN_SEGMENT = 99

Anchor: TypeAlias = Literal["zero", "own", "watermark", "greatest", "end"]
"""What a time is near to."""
Spoken: TypeAlias = Literal["right", "none", "older", "newer"]
"""How a call names its incarnation."""


class Step(Protocol):
    def run(self, pair: Pair) -> None: ...


@dataclass(frozen=True)
class When:
    anchor: Anchor
    delta: int

    def of(self, pair: Pair, writer: str) -> int:
        times = [0]
        if self.anchor == "own" and writer in pair.model.writers:
            times.append(pair.model.writers[writer].time or 0)
        if self.anchor == "watermark":
            times.append(pair.model.watermark or 0)
        if self.anchor == "greatest":
            times += [one.time or 0 for one in pair.model.writers.values()]
        if self.anchor == "end":
            times.append(END_OF_TIME)
        return max(times) + self.delta


def _incarnation(pair: Pair, writer: str, spoken: Spoken) -> int | None:
    record = pair.model.writers.get(writer)
    stored = 0 if record is None else record.incarnation
    if spoken == "right":
        return stored or None
    return {"none": None, "older": stored - 1, "newer": stored + 1}[spoken]


@dataclass(frozen=True)
class Note:
    writer: str
    when: When
    position: dict[int, int]
    spoken: Spoken
    tail: int | None
    then_pass: bool

    def run(self, pair: Pair) -> None:
        tails = (
            None if self.tail is None else dict.fromkeys(pair.model.shape.lengths, self.tail)
        )
        pair.note(
            self.writer,
            self.when.of(pair, self.writer),
            _known(pair, self.position),
            incarnation=_incarnation(pair, self.writer, self.spoken),
            tails=tails,
        )
        if self.then_pass:
            pair.run_pass()


def _known(pair: Pair, position: dict[int, int]) -> dict[int, int]:
    """Fold segment numbers into those that exist, all but the one that never does."""
    count = len(pair.model.shape.lengths)
    return {
        number if number == UNKNOWN_SEGMENT else number % count: offset
        for number, offset in position.items()
    }


@dataclass(frozen=True)
class Register:
    writer: str
    when: When | None
    appended: dict[int, int]
    registration_id: str | None

    def run(self, pair: Pair) -> None:
        lengths = pair.model.shape.lengths
        appended = {
            number: offset if (length := lengths[number]) is None else min(offset, length)
            for number, offset in _known(pair, self.appended).items()
        }
        time = None if self.when is None else self.when.of(pair, self.writer)
        pair.register(
            self.writer,
            time=time,
            appended=appended,
            registration_id=self.registration_id,
        )


@dataclass(frozen=True)
class Leave:
    writer: str
    last: tuple[When, dict[int, int]] | None
    spoken: Spoken

    def run(self, pair: Pair) -> None:
        last = self.last and (
            self.last[0].of(pair, self.writer),
            _known(pair, self.last[1]),
        )
        incarnation = _incarnation(pair, self.writer, self.spoken)
        pair.leave(self.writer, last=last, incarnation=incarnation)


@dataclass(frozen=True)
class Expire:
    writer: str

    def run(self, pair: Pair) -> None:
        pair.expire(self.writer)


@dataclass(frozen=True)
class Pass:
    def run(self, pair: Pair) -> None:
        pair.run_pass()


@dataclass(frozen=True)
class Tick:
    wall_ms: int
    listening_ms: int
    then_pass: bool

    def run(self, pair: Pair) -> None:
        pair.tick(self.wall_ms, self.listening_ms)
        if self.then_pass:
            pair.run_pass()


@dataclass(frozen=True)
class Scale:
    sealed: int
    extra: tuple[int, ...]
    successors: tuple[int, ...]

    def run(self, pair: Pair) -> None:
        shape = pair.model.shape
        sealed = chosen(shape.growing, self.sealed)
        number = len(shape.lengths)
        pair.scale(
            {
                one: pair.length_of(one) + self.extra[at % len(self.extra)]
                for at, one in enumerate(sealed)
            },
            {
                number + at: tuple(chosen(sealed, bits))
                for at, bits in enumerate(self.successors)
            },
        )


@dataclass(frozen=True)
class Seal:
    extra: int

    def run(self, pair: Pair) -> None:
        growing = pair.model.shape.growing
        pair.seal({one: pair.length_of(one) + self.extra for one in growing})


@dataclass(frozen=True)
class Change:
    """New settings."""

    rules: Rules

    def run(self, pair: Pair) -> None:
        pair.change_rules(replace(self.rules, skew_ms=pair.model.rules.skew_ms))


@dataclass(frozen=True)
class Commit:
    compact: bool

    def run(self, pair: Pair) -> None:
        pair.commit(compact=self.compact)


@dataclass(frozen=True)
class Restart:
    def run(self, pair: Pair) -> None:
        pair.restart()


def run_script(pair: Pair, script: list[Step]) -> None:
    """Do every step, and look at all that can be seen after each."""
    for step in script:
        step.run(pair)
        pair.compare()


T = TypeVar("T")
Weighted: TypeAlias = tuple[int, st.SearchStrategy[T]]


def mixed(*weighted: Weighted[T]) -> st.SearchStrategy[T]:
    """Choose by weight, which ``one_of`` does not: it takes each strategy once."""
    choices = [strategy for weight, strategy in weighted for _ in range(weight)]
    return st.sampled_from(range(len(choices))).flatmap(choices.__getitem__)


rules = st.builds(
    Rules,
    timeout_ms=st.sampled_from([None, 1, 5, 10]),
    hold_limit_ms=st.sampled_from([None, 4, 10, 21]),
    min_writers=st.sampled_from([0, 0, 0, 2, 3]),
    resolution_ms=st.sampled_from([0, 0, 2, 3]),
    retention_ms=st.sampled_from([None, 0, 5, 10]),
    skew_ms=st.sampled_from([None, None, 6]),
)
shapes = st.integers(1, 3).map(Shape.of)
writers = st.sampled_from(WRITERS)
_times = st.builds(
    When,
    st.sampled_from(["own", "own", "own", "own", "watermark", "watermark", "greatest", "zero"]),
    st.sampled_from([0, 1, 1, 2, 3, 4, 8, -1, -2]),
)
_odd_times = _times | st.builds(When, st.just("end"), st.integers(-1, 0))
_positions = st.dictionaries(st.integers(0, 8), st.integers(0, 5), max_size=2)
_odd_positions = st.dictionaries(
    st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, UNKNOWN_SEGMENT]), st.integers(-1, 6), max_size=3
)
_spoken: st.SearchStrategy[Spoken] = st.sampled_from(["right", "none", "older", "newer"])
notes = st.builds(
    Note,
    writer=writers,
    when=_times,
    position=_positions,
    spoken=st.just("right"),
    tail=st.none(),
    then_pass=st.sampled_from([False, False, False, True]),
)
_odd_notes = st.builds(
    Note,
    writer=writers,
    when=_odd_times,
    position=_positions | _odd_positions,
    spoken=_spoken,
    tail=st.none() | st.integers(0, 5),
    then_pass=st.booleans(),
)
registers = st.builds(
    Register,
    writer=writers,
    when=st.none() | _times,
    appended=_positions,
    registration_id=st.none() | st.sampled_from("abcdef"),
)
leaves = st.builds(
    Leave, writer=writers, last=st.none() | st.tuples(_times, _positions), spoken=_spoken
)
_ticks = st.builds(
    Tick,
    wall_ms=st.integers(0, 5),
    listening_ms=st.sampled_from([0, 1, 2, 3, 4, 5, 6, 9, 10]),
    then_pass=st.just(True),
)
scales = st.builds(
    Scale,
    sealed=SOME,
    extra=st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple),
    successors=st.lists(SOME, min_size=1, max_size=2).map(tuple),
)
_plain: list[Weighted[Step]] = [
    (50, notes),
    (6, _odd_notes),
    (8, registers),
    (6, leaves),
    (4, st.builds(Expire, writers)),
    (14, _ticks),
    (6, st.builds(Pass)),
    (5, scales),
    (2, st.builds(Change, rules)),
    (1, st.builds(Seal, st.integers(0, 2))),
]
_storage: list[Weighted[Step]] = [
    (12, st.builds(Commit, st.booleans())),
    (8, st.builds(Restart)),
]


def of_any_length(steps: st.SearchStrategy[T]) -> st.SearchStrategy[list[T]]:
    """Scripts of any length; left alone, most lists are short."""
    lengths = st.integers(0, 60)
    return lengths.flatmap(lambda count: st.lists(steps, min_size=count, max_size=count))


scripts = of_any_length(mixed(*_plain))
restarted_scripts = of_any_length(mixed(*_plain, *_storage))
