"""Random histories of a stream whose watermark is held, and brute force that knows who held it.

After every pass brute force looks at each writer by itself, and keeps the sets of those that hold.
Nothing of it is derived from the spans that the aggregation stores. The laws are those of rule 8b.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from tests.property.memory import Memory
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.errors import TidegaugeError
from tidegauge.event_time import END_OF_TIME
from tidegauge.holds import Hold
from tidegauge.topology import Topology

_BEGAN = 1_700_000_000_000
_COUNTED_MS = 300_000
_TOPOLOGY = Topology.of_partitions(1)
_ENDS = {"noted": {"note", "come", "beat"}, "left": {"leave"}, "operator": {"expire"}}


@dataclass(frozen=True)
class Sample:
    """What brute force saw at the end of a pass."""

    now: Now
    holders: frozenset[str]
    held: bool
    revision: int
    watermark: int | None
    heard: frozenset[str]
    """Of whom the pass found a report."""
    acts: set[tuple[str, str]]
    """Who did what before it."""
    expired: frozenset[str]
    patience_ms: float
    """As of the beginning of the pass."""


@dataclass
class Run:
    """A longest time in which the watermark is held at one revision."""

    samples: list[Sample]
    after: Sample
    """The pass that ended it, or the present."""
    goes_on: bool

    def pieces(self) -> Iterator[tuple[Sample, Sample]]:
        """List what was seen, each with what was seen later."""
        seen = pairwise([*self.samples, self.after])
        return ((one, after) for one, after in seen if one.now != after.now)

    @property
    def began(self) -> Now:
        """When it began."""
        return self.samples[0].now


@dataclass
class Night:
    """One history: writers that note, stand, beat, leave, expire, come back; restarts; settings."""

    random: Random
    sees_all: bool = True
    """Whether a pass sees each commit before the service ends."""
    names: list[str] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def __post_init__(self) -> None:
        choose = self.random.choice
        self.settings = StreamSettings(
            aggregation_timeout_ms=choose([None, None, 20_000, 60_000]),
            hold_limit_ms=choose([None, None, 40_000, 600_000]),
            min_writers=choose([0, 1, 1, 2, 3]),
            writer_retention_ms=choose([None, None, 100_000]),
            max_future_skew_ms=None,
        )
        self.core = Aggregator("s/s", self.settings, _TOPOLOGY)
        self.memory = Memory()
        self.names = [f"w{at}" for at in range(choose([2, 3, 4, 6]))]
        self.now, self.event = Now(_BEGAN, 1_000), _BEGAN
        self._incarnations: dict[str, int] = {}
        self._acts: set[tuple[str, str]] = set()
        self._heard: set[str] = set()

    def live(self, steps: int) -> Hold | None:
        """Live through it, and return the hold that goes on at its end."""
        for _ in range(steps):
            for _ in range(self.random.choice([0, 1, 1, 2, 4])):
                self._act()
            if self.random.random() < 0.05:
                timeout_ms = self.random.choice([None, 20_000, 60_000])
                self.settings = replace(self.settings, aggregation_timeout_ms=timeout_ms)
                self.core.change_settings(self.settings)
            passes = self.random.random() < 0.93
            self._commit(passes=passes)
            if (passes or not self.sees_all) and self.random.random() < 0.06:
                self._restart()
            step = self.random.choice([10, 300, 1_000, 3_000, 3_000, 8_000, 30_000, 400_000])
            self._let_pass(step)
            self.event += self.random.choice([0, step, step])
        self._commit(passes=True)
        if self.random.random() < 0.3:
            self._let_pass(1_000)
            self._see(self.core.seal({0: 0}, self.now).expired, self.core_patience())
            self._store()
        current = self.core.current_hold(self.now)
        self._see([], self.core_patience())
        return current

    def core_patience(self) -> float:
        """For how long the watermark may stand, as the aggregation says."""
        return self.core.inspect(self.now).patience_ms

    def _let_pass(self, ms: int, *, unheard_ms: int = 0) -> None:
        self.now = Now(self.now.wall_ms + ms + unheard_ms, self.now.listening_ms + ms)

    def _act(self) -> None:
        writer = self.random.choice(self.names)
        act = self.random.choices(
            ["note", "beat", "register", "come", "leave", "expire", "new"],
            [50, 25, 6, 4, 4, 2, 3],
        )[0]
        if act == "new":
            writer = f"n{len(self.names)}"
            self.names.append(writer)
        try:
            self._do(writer, act)
        except TidegaugeError:
            return
        self._acts.add((writer, act))

    def _do(self, writer: str, act: str) -> None:
        core, now, incarnation = self.core, self.now, self._incarnations.get(writer)
        if act == "note":
            at = self.event + self.random.choice([-5_000, 0, 1_000, 3_000, 10_000])
            core.note_time(writer, at, {}, now=now, incarnation=incarnation)
            self._heard.add(writer)
        elif act == "beat":
            time = core.inspect(now).status(writer).time
            if time is not None:
                core.note_time(writer, time, {}, now=now, incarnation=incarnation)
                self._heard.add(writer)
        elif act in ("register", "new", "come"):
            time = self.event if act == "come" else None
            self._incarnations[writer] = core.register(writer, now=now, time=time).incarnation
            if time is not None:
                self._heard.add(writer)
        elif act == "leave":
            core.leave(writer, now=now, incarnation=incarnation)
        else:
            core.expire(writer, now=now)

    def _commit(self, *, passes: bool) -> None:
        if passes:
            patience_ms = self.core_patience()
            outcome = self.core.run_pass(self.now)
            self._see(outcome.expired, patience_ms)
        self._store()
        if passes and outcome.forgotten:
            self._commit(passes=True)  # the service runs it at once

    def _store(self) -> None:
        changes = self.core.take_changes()
        self.memory.apply(changes)
        self.holds += changes.holds

    def _restart(self) -> None:
        self.core = Aggregator.restore("s/s", self.settings, _TOPOLOGY, self.memory.stored())
        self._let_pass(0, unheard_ms=self.random.choice([0, 500, 5_000, 60_000, 3_600_000]))

    def _see(self, expired: list[str], patience_ms: float) -> None:
        watermark, seen = self.core.watermark, list(self.core.inspect(self.now).statuses())
        ahead = {
            one.writer
            for one in seen
            if one.stand is not None and (watermark is None or one.stand > watermark)
        }
        live = ("joining", "active", "behind")
        holders = {one.writer for one in seen if one.state in live} - ahead
        waits = any(one.writer in ahead and one.state != "expired" for one in seen)
        counts = self.core.newest is not None or self._reporters() >= self.settings.min_writers
        held = waits and bool(holders) and counts and not self.core.final
        self.samples.append(
            Sample(
                self.now,
                frozenset(holders),
                held,
                self.core.revision,
                watermark,
                frozenset(self._heard),
                self._acts,
                frozenset(expired),
                patience_ms,
            )
        )
        self._heard, self._acts = set(), set()

    def _reporters(self) -> int:
        return self.core.inspect(self.now).roster.reporters


def runs_of(samples: list[Sample]) -> Iterator[Run]:
    """List the holds that brute force saw."""
    held: list[Sample] = []
    for sample in samples:
        if held and (not sample.held or sample.revision != held[0].revision):
            yield Run(held, sample, goes_on=False)
            held = []
        if sample.held:
            held.append(sample)
    if len(held) > 1:
        yield Run(held[:-1], held[-1], goes_on=True)


def check(night: Night, current: Hold | None) -> int:
    """Hold the stored spans against what brute force saw; return how many there are.

    Raises
    ------
    AssertionError
        With the law that is broken.
    """
    stored = [*night.holds, *([] if current is None else [current])]
    assert all((hold.end is None) is (hold is current) for hold in stored), "ended, or not"
    numbers = [hold.number for hold in stored]
    assert numbers == list(range(1, len(stored) + 1)), "numbers are left out, or given twice"
    used = 0
    for run in runs_of(night.samples):
        mine = [hold for hold in stored if _is_within(hold, run)]
        _check_run(run, mine, is_whole=night.sees_all)
        used += len(mine)
    assert used == len(stored), "a span outside of any hold"
    return used


def _is_within(hold: Hold, run: Run) -> bool:
    began_ms, until_ms = run.began.wall_ms, run.after.now.wall_ms
    return hold.began_ms == began_ms and began_ms < hold.until_ms <= until_ms


def _check_run(run: Run, spans: list[Hold], *, is_whole: bool) -> None:
    counts_ms = run.began.wall_ms + run.after.patience_ms
    if run.after.now.wall_ms <= counts_ms:
        assert not spans, "a short hold is stored"
        return
    for span in spans:
        _check_span(run, span, is_whole=is_whole)
    if is_whole:
        _check_tiles(run, spans, counts_ms)


def _check_tiles(run: Run, spans: list[Hold], counts_ms: float) -> None:
    assert spans, "a hold is not stored"
    assert spans[0].since_ms <= counts_ms, "a part of a hold is not covered"
    for one, following in pairwise(spans):
        assert one.until_ms == following.since_ms, "spans of a hold have a gap, or overlap"
        assert one.reached is None, "a watermark rose within a hold"
    assert spans[-1].until_ms == run.after.now.wall_ms, "the end of a hold is not covered"
    assert len(spans) <= _fewest(run, spans[0].since_ms), "more spans than needed"
    reached = spans[-1].reached
    if (
        spans[-1].end == "sealed" or run.after.watermark != END_OF_TIME
    ):  # it may rise before that
        rose = run.after.revision != run.samples[0].revision
        assert reached == (run.after.watermark if rose else None), "another watermark ended it"


def _check_span(run: Run, span: Hold, *, is_whole: bool) -> None:
    pieces = [
        (one, following)
        for one, following in run.pieces()
        if one.now.wall_ms >= span.since_ms and following.now.wall_ms <= span.until_ms
    ]
    began, ended = pieces[0][0].now, pieces[-1][1].now
    assert (began.wall_ms, ended.wall_ms) == (span.since_ms, span.until_ms), "cut at no pass"
    assert span.watermark == run.samples[0].watermark, "another watermark stood"
    assert all(span.writer in one.holders for one, _ in pieces), "its writer did not hold"
    if is_whole:  # else it may count one that came or went by a commit that no pass saw
        half_ms = (began.listening_ms + ended.listening_ms) / 2
        second = [one for one, after in pieces if after.now.listening_ms > half_ms]
        more = {len(one.holders) - 1 for one in second}
        assert span.others in more, "another number of others"
    looks = [after for _, after in pieces]
    heard = [began, *(one.now for one in looks if one.heard)]
    gaps = [after.listening_ms - before.listening_ms for before, after in pairwise(heard)]
    assert span.silence_ms == max(gaps, default=0), "another silence"
    last_ms = ended.listening_ms - heard[-1].listening_ms
    assert span.held_ms <= counted_ms([*gaps, last_ms]), "more counts than may"
    reports = looks if span.end is None else looks[:-1]
    assert span.reported == any(span.writer in one.heard for one in reports), "reported?"
    unheard_ms = ended.wall_ms - began.wall_ms - (ended.listening_ms - began.listening_ms)
    assert span.unheard_ms == (unheard_ms if unheard_ms >= 1_000 else 0), "another outage"
    _check_end(span, looks[-1])


def _check_end(span: Hold, last: Sample) -> None:
    if span.end in ("silence", "standing_still"):
        assert span.writer in last.expired, "did not expire"
    elif span.end in _ENDS:
        assert span.writer not in last.expired, "expired by its clock"
        did = {act for writer, act in last.acts if writer == span.writer}
        assert did & _ENDS[span.end], "did something else"


def _fewest(run: Run, since_ms: int) -> int:
    """Count the writers that tile a hold at least, from a moment on."""
    sets = [one.holders for one, after in run.pieces() if after.now.wall_ms > since_ms]
    count = 0
    while sets:
        sets = sets[max(_reach(name, sets) for name in sets[0]) :]
        count += 1
    return count


def _reach(name: str, sets: list[frozenset[str]]) -> int:
    """Return how many sets in a row have a name."""
    return next((at for at, holders in enumerate(sets) if name not in holders), len(sets))


def counted_ms(gaps_ms: list[int]) -> int:
    """Return what counts as held of some gaps between reports."""
    return sum(min(gap, _COUNTED_MS) for gap in gaps_ms)
