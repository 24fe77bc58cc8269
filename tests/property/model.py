"""The rules of aggregation by brute force, over enumerated events.

Everything is computed anew, from all reports ever accepted, each time it is asked for. No code
is shared with the core, so that each can show the other wrong.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from tests.property.events import Events, Offsets, Shape, count_in, union

END_OF_TIME = 2**63 - 1
MARKS_PER_PASS = 1_000
ENTRIES_PER_PASS = 1_000_000
REGISTRATIONS_KNOWN = 4

State: TypeAlias = Literal["joining", "active", "behind", "expired", "left"]


@dataclass(frozen=True)
class Rules:
    """The settings of a stream."""

    timeout_ms: int | None = None
    hold_limit_ms: int | None = None
    min_writers: int = 0
    resolution_ms: int = 0
    retention_ms: int | None = None
    skew_ms: int | None = None


class Clocks(NamedTuple):
    wall_ms: int
    listening_ms: int


class Noted(NamedTuple):
    """One accepted report."""

    time: int
    named: Events
    """What the report itself stands for."""


class Found(NamedTuple):
    """A latest time, and the look that first found it."""

    incarnation: int
    time: int
    look_ms: int


@dataclass
class Passing:
    """Time that passes only while others go on."""

    ms: int = 0
    """As of the latest look."""
    of_gap_ms: int = 0
    moved_ms: int | None = None
    """The look that last found somebody going on."""

    def at(self, listening_ms: int, setting_ms: int | None) -> int:
        if self.moved_ms is None or setting_ms is None:
            return self.ms
        of_gap_ms = min(listening_ms - self.moved_ms, (setting_ms + 1) // 2)
        return max(self.ms, self.ms - self.of_gap_ms + of_gap_ms)

    def look(self, listening_ms: int, setting_ms: int | None, *, goes_on: bool) -> None:
        before, self.ms = self.ms, self.at(listening_ms, setting_ms)
        self.of_gap_ms += self.ms - before
        if goes_on:
            self.of_gap_ms, self.moved_ms = 0, listening_ms


class ModelMark(NamedTuple):
    revision: int
    lower: int
    upper: int
    events: Events
    """What lies before the cut."""


@dataclass(eq=False)
class ModelWriter:
    name: str
    incarnation: int = 0
    standing: Literal["live", "left", "expired"] = "live"
    reports: list[Noted] = field(default_factory=list)
    """All of its present incarnation."""
    former: list[Noted] = field(default_factory=list)
    """All of former incarnations."""
    appended: Events = frozenset()
    """What former incarnations appended to the embedded log."""
    stand: int | None = None
    """Where it stands: its latest time, or what its registration answered."""
    stands_by_report: bool = False
    grace: bool = False
    ended: list[int] = field(default_factory=list)
    """The latest times of its incarnations that ended since the newest mark."""
    heard: bool = False
    """Whether a report of it was accepted since the latest look."""
    found: "Found | None" = None
    """Its latest time as the latest look found it."""
    silence_stamp: int | None = None
    limit_stamp: int | None = None
    gone_ms: int | None = None
    gone_watermark: int | None = None
    """The watermark at which it went out."""
    pace: "Found | None" = None
    """From where an approach is measured."""
    registrations: list[tuple[str, int]] = field(default_factory=list)
    """All of its registrations that had an id, with the incarnations that they made."""

    @property
    def live(self) -> bool:
        return self.standing == "live"

    @property
    def time(self) -> int | None:
        return self.reports[-1].time if self.reports else None

    @property
    def base(self) -> Events:
        """The position that stays from former incarnations."""
        return self.appended | union(report.named for report in self.former)

    def position_at(self, count: int) -> Events:
        """The join of all that it reported, up to so many reports of this incarnation."""
        return self.base | union(report.named for report in self.reports[:count])

    @property
    def position(self) -> Events:
        return self.position_at(len(self.reports))

    def contribution(self, time: int) -> Events:
        """Its position at its first report with a time at or above this one, or its last."""
        return self.position_at(self._contributing(time))

    def contributed_times(self, time: int) -> list[int]:
        """The times that may raise the upper bound of a mark at this time."""
        contributing = self.reports[: self._contributing(time)]
        return [report.time for report in (*self.former, *contributing)]

    def _contributing(self, time: int) -> int:
        for at, report in enumerate(self.reports):
            if report.time >= time:
                return at + 1
        return len(self.reports)

    def restart(self, incarnation: int) -> None:
        if self.time is not None:
            self.ended.append(self.time)
        self.former += self.reports
        self.reports = []
        self.incarnation = incarnation

    def revive(self) -> None:
        self.standing, self.gone_ms, self.gone_watermark, self.pace = "live", None, None, None


class ModelOutcome(NamedTuple):
    marks: list[ModelMark]
    expired: list[str]
    forgotten: list[str]


def marks_at_most(segments: int) -> int:
    """As many marks as a pass may emit; some, however many segments their cuts name."""
    return max(10, min(MARKS_PER_PASS, ENTRIES_PER_PASS // segments))


def lowers(
    times: Iterable[int],
    target: int,
    watermark: int | None,
    resolution_ms: int,
    most: int = MARKS_PER_PASS,
) -> list[int]:
    """The lower bounds of one pass, of all times that may become one."""
    kept: list[int] = []
    before = watermark
    for time in sorted(times):
        near_before = before is not None and time - before < resolution_ms
        if not near_before and target - time >= resolution_ms:
            kept.append(time)
            before = time
    below = most - 1
    if len(kept) > below:
        kept = [kept[len(kept) * rank // below] for rank in range(below)]
    return [*kept, target]


@dataclass
class Model:
    """One stream."""

    shape: Shape
    rules: Rules
    writers: dict[str, ModelWriter] = field(default_factory=dict)
    marks: list[ModelMark] = field(default_factory=list)
    reporters: set[str] = field(default_factory=set)
    forgotten_incarnation: int = 0
    reached: int | None = None
    """What the others have reached, as the latest pass found it."""
    silence: Passing = field(default_factory=Passing)
    limit: Passing = field(default_factory=Passing)

    @property
    def watermark(self) -> int | None:
        return self.marks[-1].lower if self.marks else None

    @property
    def final(self) -> bool:
        return self.watermark == END_OF_TIME

    @property
    def covered(self) -> Events:
        return self.marks[-1].events if self.marks else frozenset()

    def above_watermark(self, time: int) -> bool:
        return self.watermark is None or time > self.watermark

    def note(
        self,
        name: str,
        time: int,
        position: Offsets,
        *,
        incarnation: int | None,
        clocks: Clocks,
        tails: Offsets | None = None,
    ) -> str:
        refusal = (
            self._refused_incarnation(name, incarnation)
            or self._refused_time(self._compared(name, incarnation), time)
            or self._refused_position(self._compared(name, incarnation), position, tails)
            or self._refused_future(time, clocks)
        )
        if self.final or refusal:
            return "stream_sealed" if self.final else str(refusal)
        writer = self.writers.setdefault(name, ModelWriter(name, incarnation or 0))
        self._restart_if_higher(writer, incarnation)
        self._take_in(writer, Noted(time, self.shape.events_of(position)))
        return "accepted"

    def made_by(self, name: str, registration_id: str | None) -> int | None:
        """The incarnation that one of the writer's last registrations made."""
        record = self.writers.get(name)
        known = dict(record.registrations[-REGISTRATIONS_KNOWN:]) if record else {}
        return None if registration_id is None else known.get(registration_id)

    def register(
        self,
        name: str,
        *,
        clocks: Clocks,
        time: int | None = None,
        appended: Offsets,
        registration_id: str | None = None,
    ) -> str:
        if self.made_by(name, registration_id) is not None:
            return "accepted"
        if self.final:
            return "stream_sealed"
        if time is not None:
            refusal = self._refused_time([], time) or self._refused_future(time, clocks)
            if refusal:
                return refusal
        writer = self.writers.get(name)
        if writer is None:
            writer = self.writers[name] = ModelWriter(name, standing="expired", grace=True)
        former = max(writer.incarnation, self.forgotten_incarnation)
        writer.restart(former + 1)
        if registration_id is not None:
            writer.registrations.append((registration_id, former + 1))
        writer.appended |= self.shape.events_of(appended)
        if writer.grace:
            writer.grace = False
            writer.silence_stamp = writer.limit_stamp = None
            if not writer.live:
                writer.revive()
                writer.stand, writer.stands_by_report = self.told(), False
        if time is not None:
            self._take_in(writer, Noted(time, frozenset()))
        return "accepted"

    def leave(
        self,
        name: str,
        *,
        last: tuple[int, Offsets] | None,
        incarnation: int | None,
        clocks: Clocks,
    ) -> str:
        if name not in self.writers:
            return "unknown_writer"
        if last is not None:
            result = self.note(name, *last, incarnation=incarnation, clocks=clocks)
        else:
            result = self._refused_incarnation(name, incarnation) or "accepted"
        if result == "accepted":
            self._restart_if_higher(self.writers[name], incarnation)
            self._go(name, "left", clocks)
        return result

    def expire(self, name: str, *, clocks: Clocks) -> str:
        if name not in self.writers:
            return "unknown_writer"
        self._go(name, "expired", clocks)
        self.writers[name].grace = False
        return "accepted"

    def told(self) -> int | None:
        """Where a writer stands that comes (back) to the stream."""
        if self.watermark is None or self.reached is None:
            return self.watermark
        return max(self.watermark, self.reached)

    def scale(self, seal: Offsets, added: dict[int, tuple[int, ...]]) -> None:
        self.shape = self.shape.scaled(seal, added)

    def run_pass(
        self, clocks: Clocks, *, given: Sequence[ModelMark] | None = None
    ) -> ModelOutcome:
        """Run a pass; ``given`` marks are taken instead of those that the rules say."""
        expired = self.begin_pass(clocks)
        marks = self.due_marks() if given is None else list(given)
        self.marks += marks
        if marks:
            for writer in self.writers.values():
                writer.ended = []
        self.reached = min(
            (
                writer.stand
                for writer in self.writers.values()
                if writer.live and writer.stands_by_report and writer.stand is not None
            ),
            default=None,
        )
        return ModelOutcome(marks, expired, self._forget(clocks))

    def begin_pass(self, clocks: Clocks) -> list[str]:
        """Look at approaches and clocks, and expire, lowest first; again has no effect."""
        self._look_at_approaches(clocks)
        self._look_at_clocks(clocks)
        for writer in self.writers.values():
            writer.heard = False
            if writer.time is None:
                writer.found = None
            elif self._is_news(writer):
                writer.found = Found(writer.incarnation, writer.time, clocks.listening_ms)
        run_out = {one.name for one in self.writers.values() if self._has_run_out(one, clocks)}
        expired: list[str] = []
        live = sorted((one for one in self.writers.values() if one.live), key=_lowest_first)
        for _, equals in groupby(live, key=_lowest_first):
            group = [one.name for one in equals]
            going = [name for name in group if name in run_out]
            for name in going:
                self._go(name, "expired", clocks)
            expired += going
            if going != group:
                break
        return sorted(expired)

    def seal(self, lengths: Offsets, clocks: Clocks) -> list[ModelMark]:
        marks = self.run_pass(clocks).marks
        self.shape = self.shape.scaled(lengths, {})
        everything = self.shape.events_of(
            {number: length or 0 for number, length in self.shape.lengths.items()}
        )
        final = ModelMark(len(self.marks) + 1, END_OF_TIME, END_OF_TIME, everything)
        self.marks.append(final)
        return [*marks, final]

    def state(self, name: str) -> State:
        writer = self.writers[name]
        if writer.standing != "live":
            return writer.standing
        if writer.time is None:
            return "joining"
        held = not self.above_watermark(writer.time) and self.somebody_ahead_of(writer)
        return "behind" if held else "active"

    def somebody_ahead_of(self, writer: ModelWriter) -> bool:
        return any(
            other is not writer
            and other.standing != "expired"
            and other.stand is not None
            and self.above_watermark(other.stand)
            and (writer.stand is None or other.stand > writer.stand)
            for other in self.writers.values()
        )

    def clocks_of(self, name: str, clocks: Clocks) -> tuple[int | None, int | None]:
        """What the two clocks of a writer show; None for one that does not run."""
        writer, now_ms = self.writers[name], clocks.listening_ms
        silence = self.silence.at(now_ms, self.rules.timeout_ms)
        limit = self.limit.at(now_ms, self.rules.hold_limit_ms)
        is_silent = writer.silence_stamp is not None and self.rules.timeout_ms is not None
        stands_still = writer.limit_stamp is not None and self.rules.hold_limit_ms is not None
        return (
            silence - (writer.silence_stamp or 0) if is_silent else None,
            limit - (writer.limit_stamp or 0) if stands_still else None,
        )

    def holds(self, writer: ModelWriter) -> bool:
        return writer.live and (writer.stand is None or not self.above_watermark(writer.stand))

    def waiting(self) -> list[str]:
        """Whoever stands above the watermark and has not expired."""
        return [
            writer.name
            for writer in self.writers.values()
            if writer.standing != "expired"
            and writer.stand is not None
            and self.above_watermark(writer.stand)
        ]

    def target(self) -> int | None:
        """T: what all live writers stand at, or if none is live, those that left."""
        live = [writer.stand for writer in self.writers.values() if writer.live]
        if live:
            known = [stand for stand in live if stand is not None]
            return min(known) if len(known) == len(live) else None
        return max(
            (
                writer.stand
                for writer in self.writers.values()
                if writer.standing == "left" and writer.stand is not None
            ),
            default=None,
        )

    def due_marks(self) -> list[ModelMark]:
        target = self.target()
        if target is None or not self.above_watermark(target):
            return []
        if not self.marks and len(self.reporters) < self.rules.min_writers:
            return []
        marks: list[ModelMark] = []
        for lower in self._lowers(target):
            marks.append(self._mark(lower, [*self.marks, *marks]))
        return marks

    def _lowers(self, target: int) -> list[int]:
        times = {
            report.time
            for writer in self.writers.values()
            for report in writer.reports
            if self.above_watermark(report.time) and report.time < target
        }
        most = marks_at_most(len(self.shape.predecessors))
        return lowers(times, target, self.watermark, self.rules.resolution_ms, most)

    def _mark(self, lower: int, marks: Sequence[ModelMark]) -> ModelMark:
        writers = self.writers.values()
        times = [time for writer in writers for time in writer.contributed_times(lower)]
        events = union(writer.contribution(lower) for writer in writers)
        if marks:
            events |= marks[-1].events
            times.append(marks[-1].upper)
        return ModelMark(len(marks) + 1, lower, max([lower, *times]), events)

    def _compared(self, name: str, incarnation: int | None) -> list[Noted]:
        """The earlier reports that a report is compared with."""
        writer = self.writers.get(name)
        if writer is None or (incarnation is not None and incarnation > writer.incarnation):
            return []
        return writer.reports

    def _refused_incarnation(self, name: str, incarnation: int | None) -> str | None:
        stored = self.writers[name].incarnation if name in self.writers else 0
        if incarnation is None:
            return "incarnation_required" if stored > 0 else None
        return "writer_fenced" if incarnation < stored else None

    def _refused_time(self, earlier: Sequence[Noted], time: int) -> str | None:
        back = any(time < report.time for report in earlier)
        return "invalid_time" if back or time >= END_OF_TIME else None

    def _refused_position(
        self, earlier: Iterable[Noted], position: Offsets, tails: Offsets | None
    ) -> str | None:
        if any(self._is_impossible(at, offset, tails) for at, offset in position.items()):
            return "invalid_position"
        events = self.shape.events_of(position)
        reported = union(report.named for report in earlier)
        back = any(count_in(events, at) < count_in(reported, at) for at in position)
        return "invalid_position" if back else None

    def _is_impossible(self, number: int, offset: int, tails: Offsets | None) -> bool:
        if number not in self.shape.predecessors or offset < 0:
            return True
        length = self.shape.lengths[number]
        beyond = length is not None and offset > length
        return beyond or (tails is not None and offset > tails.get(number, 0))

    def _refused_future(self, time: int, clocks: Clocks) -> str | None:
        skew = self.rules.skew_ms
        ahead = skew is not None and time > clocks.wall_ms + skew
        return "time_in_future" if ahead else None

    def _restart_if_higher(self, writer: ModelWriter, incarnation: int | None) -> None:
        if incarnation is not None and incarnation > writer.incarnation:
            writer.restart(incarnation)

    def _take_in(self, writer: ModelWriter, report: Noted) -> None:
        is_above = self.above_watermark(report.time)
        if is_above and all(report.time > time for time in writer.ended):
            writer.grace = True
        if not writer.live and (
            writer.gone_watermark is None or report.time > writer.gone_watermark
        ):
            writer.grace = True
        writer.reports.append(report)
        writer.stand, writer.stands_by_report, writer.heard = report.time, True, True
        self.reporters.add(writer.name)
        if not writer.live and is_above:
            writer.revive()

    def _go(self, name: str, standing: Literal["left", "expired"], clocks: Clocks) -> None:
        writer = self.writers[name]
        writer.standing = standing
        writer.gone_ms, writer.gone_watermark = clocks.listening_ms, self.watermark
        writer.silence_stamp = writer.limit_stamp = None
        writer.pace = None
        if writer.time is not None:
            writer.pace = Found(writer.incarnation, writer.time, clocks.listening_ms)
            if writer.found is not None and not self._is_news(writer):
                writer.pace = writer.found

    def _is_news(self, writer: ModelWriter) -> bool:
        """Whether its latest time is not the one that the latest look found."""
        return (writer.incarnation, writer.time) != (writer.found or (None,))[:2]

    def _look_at_approaches(self, clocks: Clocks) -> None:
        now_ms = clocks.listening_ms
        settings = (self.rules.timeout_ms, self.rules.hold_limit_ms)
        least = min((one for one in settings if one is not None), default=None)
        for writer in self.writers.values():
            if writer.live or not writer.heard or writer.time is None or least is None:
                continue
            if writer.pace is None or writer.pace.incarnation != writer.incarnation:
                writer.pace = Found(writer.incarnation, writer.reports[0].time, now_ms)
            _, start, since_ms = writer.pace
            risen, passed_ms = writer.time - start, now_ms - since_ms
            if risen <= 0 or 10 * passed_ms < least:
                continue
            assert self.watermark is not None
            if writer.grace and (self.watermark - writer.time) * passed_ms <= risen * least:
                writer.grace = False
                writer.revive()
            else:
                writer.pace = Found(writer.incarnation, writer.time, now_ms)

    def _look_at_clocks(self, clocks: Clocks) -> None:
        now_ms = clocks.listening_ms
        writers = self.writers.values()
        heard = any(writer.heard for writer in writers)
        progressed = any(writer.live and self._has_progressed(writer) for writer in writers)
        self.silence.look(now_ms, self.rules.timeout_ms, goes_on=heard)
        self.limit.look(now_ms, self.rules.hold_limit_ms, goes_on=progressed)
        silence, limit = self.silence.ms, self.limit.ms
        is_met = bool(self.marks) or len(self.reporters) >= self.rules.min_writers
        for writer in writers:
            if not (writer.live and is_met and self.somebody_ahead_of(writer)):
                writer.silence_stamp = writer.limit_stamp = None
                continue
            if writer.silence_stamp is None or writer.heard:
                writer.silence_stamp = silence
            if writer.limit_stamp is None or self._has_progressed(writer):
                writer.limit_stamp = limit

    def _has_progressed(self, writer: ModelWriter) -> bool:
        """Whether its latest time is news, and more than its former incarnations noted."""
        return (
            writer.time is not None
            and self.above_watermark(writer.time)
            and self._is_news(writer)
            and all(writer.time > time for time in writer.ended)
        )

    def _has_run_out(self, writer: ModelWriter, clocks: Clocks) -> bool:
        rules, now_ms = self.rules, clocks.listening_ms
        silent = (self.silence, writer.silence_stamp, rules.timeout_ms)
        standing = (self.limit, writer.limit_stamp, rules.hold_limit_ms)
        return any(
            stamp is not None
            and setting is not None
            and time.at(now_ms, setting) - stamp >= setting
            for time, stamp, setting in (silent, standing)
        )

    def _forget(self, clocks: Clocks) -> list[str]:
        forgotten = sorted(
            writer.name
            for writer in self.writers.values()
            if self._is_over(writer, clocks) and writer.position <= self.covered
        )
        for name in forgotten:
            incarnation = self.writers.pop(name).incarnation
            self.forgotten_incarnation = max(self.forgotten_incarnation, incarnation)
        return forgotten

    def _is_over(self, writer: ModelWriter, clocks: Clocks) -> bool:
        retention = self.rules.retention_ms
        if writer.gone_ms is None or retention is None or not self.marks:
            return False
        return clocks.listening_ms - writer.gone_ms >= retention


def _lowest_first(writer: ModelWriter) -> tuple[bool, int]:
    """Who stands nowhere comes before all."""
    return writer.stand is not None, writer.stand or 0
