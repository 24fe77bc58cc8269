"""A fleet of writers on a virtual clock, the service that hears them, and books of what happened.

Writers take turns on a queue of events: a *life* says after how many milliseconds it goes on. They
write rows and note time honestly. The books know of each row who wrote it, whether it was reported,
and whether its writer was given up on; and they read both clocks of each writer by sums of their
own. From these the fleet judges every mark, every expiry and every hold.
"""

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, islice
from random import Random
from typing import TypeAlias

from tests.property.memory import Memory
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.outcomes import Registration
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.event_time import FIRST_TIME
from tidegauge.marks import Mark
from tidegauge.topology import Topology

Life: TypeAlias = Iterator[int]
"""Of a process: it says how long it waits, ms, before it goes on."""
SEGMENTS = 4
INTERVAL_MS = 100
"""A pass that makes marks is at least so far from the one before it."""


@dataclass(slots=True, eq=False)
class Row:
    time: int
    writer: "Writer"
    reported_at: int | None = None
    """Revision of the newest mark when a report covered it; None while none does."""


class PassingTime:
    """Listening time, of which a gap counts at most half of a setting."""

    def __init__(self, setting_ms: int) -> None:
        self.setting_ms = setting_ms
        self.ms = 0
        self._before_gap_ms = 0
        self._moved_ms: int | None = None

    def look(self, listening_ms: int, *, goes_on: bool) -> None:
        if self._moved_ms is not None:
            gap_ms = min(listening_ms - self._moved_ms, (self.setting_ms + 1) // 2)
            self.ms = self._before_gap_ms + gap_ms
        if goes_on:
            self._before_gap_ms, self._moved_ms = self.ms, listening_ms


@dataclass(eq=False)
class Writer:
    """A name, and all that its processes did."""

    name: str
    kind: str
    life: Life = field(default_factory=lambda: iter(()))
    resumes_ms: int = 0
    """Its network is cut, or it sleeps, until then."""
    incarnation: int | None = None
    promised: int = 0
    """It writes no older rows."""
    ends: dict[int, int] = field(default_factory=dict)
    """After its latest row of each segment."""
    position: dict[int, int] = field(default_factory=dict)
    """The same of its present process, which does not know what others wrote."""
    unreported: list[Row] = field(default_factory=list)
    live: bool = False
    known: bool = False
    stand: int | None = None
    time: int | None = None
    """Latest noted in this incarnation."""
    floor: int = FIRST_TIME
    """Older rows were passed while it was out, or are below the time that it was told."""
    why: str = "not there yet"
    """For what reason it was out last."""
    ended: int | None = None
    """The greatest that incarnations noted which ended since the newest mark."""
    found: int | None = None
    heard: bool = False
    silent_since: int | None = None
    standing_since: int | None = None
    """In the two times; None while nobody is ahead of it."""
    holds_since: int | None = None
    """In busy time; None while it does not hold the others."""


class Fleet:
    """One stream, its service and its writers.

    Parameters
    ----------
    seed
        Of all that is random.
    timeout_ms, limit_ms
        The two settings.
    """

    def __init__(self, seed: int, *, timeout_ms: int, limit_ms: int) -> None:
        self.random = Random(seed)
        self.timeout_ms, self.limit_ms = timeout_ms, limit_ms
        settings = StreamSettings(aggregation_timeout_ms=timeout_ms, hold_limit_ms=limit_ms)
        self.core = Aggregator("scope/fleet", settings, Topology.of_equal_ranges(SEGMENTS))
        self.memory = Memory()
        self.writers: dict[str, Writer] = {}
        self.now_ms = 0
        self.resumes_ms = 0
        """The whole pipeline stands still until then."""
        self.counts: Counter[str] = Counter()
        self.late: Counter[tuple[str, str]] = Counter()
        """Rows, by the kind of their writer and for what reason it was out."""
        self.expiries: Counter[tuple[str, str]] = Counter()
        self.longest_ms: Counter[str] = Counter()
        """Holds of one writer, in busy time, by its kind."""
        self.longest_stand_ms = 0
        """Of the watermark while somebody was ahead of it, in busy time."""
        self._down_ms = 0
        """For so long the service was not there."""
        self._rows: list[deque[Row]] = [deque() for _ in range(SEGMENTS)]
        self._ends = [0] * SEGMENTS
        self._silence, self._limit = PassingTime(timeout_ms), PassingTime(limit_ms)
        self._quiet_ms, self._heard_ms = 0, 0
        """Listening time in which nobody reported for more than half a timeout."""
        self._stood_since: int | None = None
        self._last_mark_ms = -INTERVAL_MS
        self._queue: list[tuple[int, int, Life, Writer | None]] = []
        self._serials = count()

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms - self._down_ms)

    @property
    def busy_ms(self) -> int:
        """Listening time in which others went on."""
        listening_ms = self.now.listening_ms
        gap_ms = listening_ms - self._heard_ms
        return listening_ms - self._quiet_ms - (gap_ms if gap_ms > self.timeout_ms // 2 else 0)

    @property
    def watermark(self) -> int:
        return FIRST_TIME if self.core.watermark is None else self.core.watermark

    def begin(self, life: Life, writer: Writer | None = None, *, in_ms: int = 0) -> None:
        """Let a process begin; of a writer, in place of the one before."""
        if writer is not None:
            writer.life = life
        self._enqueue(life, writer, in_ms)

    def _enqueue(self, life: Life, writer: Writer | None, in_ms: int) -> None:
        heappush(self._queue, (self.now_ms + in_ms, next(self._serials), life, writer))

    def run(self, until_ms: int) -> None:
        while self._queue[0][0] <= until_ms:
            at_ms, _, life, writer = heappop(self._queue)
            if writer is not None:
                if life is not writer.life:
                    continue
                resumes_ms = max(self.resumes_ms, writer.resumes_ms)
                if at_ms < resumes_ms:
                    wait_ms = resumes_ms - self.now_ms + self.between(0, self.timeout_ms // 10)
                    self._enqueue(life, writer, wait_ms)
                    continue
            self._run_passes(at_ms)
            self.now_ms = max(self.now_ms, at_ms)
            for pause_ms in islice(life, 1):  # none if the process ends
                self._enqueue(life, writer, pause_ms)
        self._run_passes(until_ms)

    def between(self, least: float, most: float) -> int:
        return self.random.randint(int(least), int(most))

    def go_down(self, for_ms: int) -> None:
        """The service is away for a while, and another one takes over."""
        self.now_ms += for_ms
        self._down_ms += for_ms
        self.resumes_ms = max(self.resumes_ms, self.now_ms)
        self.take_over()

    def take_over(self) -> None:
        """Kill the service: another one goes on with what is stored, as this one would."""
        self._commit()
        old, stored = self.core, self.memory.stored()
        self.core = Aggregator.restore(old.stream, old.settings, old.topology, stored)
        seen = [list(one.inspect(self.now).statuses()) for one in (old, self.core)]
        assert seen[0] == seen[1], "somebody gained or lost something"
        outcome = old.run_pass(self.now)
        self._run_pass(expected=(outcome.marks, outcome.expired, outcome.forgotten))
        assert self.core.next_deadline() == old.next_deadline()
        old.drop_reports()
        self.counts["take-overs"] += 1

    def told(self) -> dict[str, object]:
        """What a note about this fleet says."""
        return {
            **self.counts,
            "late rows of those who were out": dict(self.late),
            "expired": dict(self.expiries),
            "longest hold by kind, ms": dict(self.longest_ms),
            "longest stand of the watermark, ms": self.longest_stand_ms,
        }

    def register(self, writer: Writer) -> Registration:
        has_grace = not writer.known
        if writer.known:
            has_grace = self.core.inspect(self.now).status(writer.name).grace
        answer = self.core.register(writer.name, now=self.now, appended=writer.ends)
        assert has_grace or answer.state != "joining" or writer.live
        assert answer.state == "joining" or not has_grace, "who has grace is let in"
        writer.known, writer.incarnation, writer.position = True, answer.incarnation, {}
        if writer.time is not None:
            writer.ended = max(writer.time, writer.ended or writer.time)
        writer.time = writer.found = None
        self._cover(writer)
        if has_grace:
            writer.silent_since = writer.standing_since = None
        if not writer.live and answer.state == "joining":
            told = FIRST_TIME if answer.time is None else answer.time
            assert told >= self.watermark
            writer.live, writer.stand, writer.floor = True, answer.time, told
        self.counts["registrations"] += 1
        return answer

    def write(self, writer: Writer, *, rows: int, until: int) -> None:
        """Append rows with times from what is promised on."""
        segment = self.random.randrange(SEGMENTS)
        for _ in range(rows):
            row = Row(self.between(writer.promised, max(until, writer.promised)), writer)
            writer.unreported.append(row)
            self._rows[segment].append(row)
        self._ends[segment] += rows
        writer.ends[segment] = writer.position[segment] = self._ends[segment]
        self.counts["rows"] += rows

    def note(self, writer: Writer, time: int) -> None:
        """Report all that was written, and promise a time."""
        self.core.note_time(
            writer.name,
            time,
            dict(writer.position),
            incarnation=writer.incarnation,
            now=self.now,
        )
        self.counts["reports"] += 1
        self._cover(writer)
        writer.promised, writer.known, writer.heard = time, True, True
        writer.time = writer.stand = time
        if not writer.live and time > self.watermark:
            writer.live, writer.floor = True, self.watermark
        self._run_passes(self.now_ms)

    def leave(self, writer: Writer) -> None:
        self.core.leave(writer.name, incarnation=writer.incarnation, now=self.now)
        self._go_out(writer, "left")

    def _cover(self, writer: Writer) -> None:
        for row in writer.unreported:
            row.reported_at = self.core.revision
        writer.unreported = []

    def _go_out(self, writer: Writer, why: str) -> None:
        writer.live, writer.why = False, why
        writer.silent_since = writer.standing_since = writer.holds_since = None

    def _commit(self) -> None:
        self.memory.apply(self.core.take_changes())
        del self.memory.marks[:-1]

    def _run_passes(self, until_ms: int) -> None:
        """Run what is due by then, at most one pass an interval, as the service does."""
        while True:
            due_ms = self.now_ms
            if not self.core.pass_due:
                deadline = self.core.next_deadline()
                if deadline is None:
                    return
                due_ms = max(due_ms, deadline + self._down_ms)
            due_ms = max(due_ms, self._last_mark_ms + INTERVAL_MS)
            if due_ms > until_ms:
                return
            self.now_ms = due_ms
            self._run_pass()

    def _run_pass(
        self, expected: tuple[list[Mark], list[str], list[str]] | None = None
    ) -> None:
        self._look()
        before, revision = self.watermark, self.core.revision
        outcome = self.core.run_pass(self.now)
        found = (outcome.marks, outcome.expired, outcome.forgotten)
        assert expected is None or found == expected, "another service would go on differently"
        self._commit()
        self.counts["passes"] += 1
        for name in outcome.expired:
            self._judge_expiry(self.writers[name])
        self._let_in(before)
        for mark in outcome.marks:
            self._judge_mark(mark, before, revision)
            before, revision = mark.lower, mark.revision
        for name in outcome.forgotten:
            self.counts["forgotten"] += 1
            self.writers.pop(name).known = False
        if outcome.marks:
            self._last_mark_ms = self.now_ms
            self.counts["marks"] += len(outcome.marks)
            for writer in self.writers.values():
                writer.ended = None
        self._judge_holds(is_new=bool(outcome.marks))

    def _look(self) -> None:
        """Read the clocks as the look of a pass does."""
        listening_ms, watermark = self.now.listening_ms, self.watermark
        writers = self.writers.values()
        heard = [one for one in writers if one.heard]
        progress = [one for one in heard if one.live and self._has_progressed(one)]
        self._silence.look(listening_ms, goes_on=bool(heard))
        self._limit.look(listening_ms, goes_on=bool(progress))
        if heard:
            self._quiet_ms, self._heard_ms = listening_ms - self.busy_ms, listening_ms
        greatest = self._greatest()
        for one in writers:
            if not one.live or greatest <= watermark or one.stand == greatest:
                one.silent_since = one.standing_since = None
            elif one.silent_since is None:
                one.silent_since, one.standing_since = self._silence.ms, self._limit.ms
            elif one.heard:
                one.silent_since = self._silence.ms
        for one in progress:
            if one.standing_since is not None:
                one.standing_since = self._limit.ms
        for one in heard:
            one.found = one.time

    def _has_progressed(self, writer: Writer) -> bool:
        time = writer.time
        return (
            time is not None
            and time > self.watermark
            and time != writer.found
            and (writer.ended is None or time > writer.ended)
        )

    def _greatest(self) -> int:
        """Where whoever is furthest stands, of those that are live or left."""
        return max(
            (
                one.stand
                for one in self.writers.values()
                if one.stand is not None and (one.live or one.why == "left")
            ),
            default=FIRST_TIME,
        )

    def _judge_expiry(self, writer: Writer) -> None:
        """Nobody is dropped who spoke within the timeout and progressed within the limit."""
        assert writer.live
        assert writer.silent_since is not None, f"nobody was ahead of {writer.name}"
        assert writer.standing_since is not None
        silent_ms = self._silence.ms - writer.silent_since
        standing_ms = self._limit.ms - writer.standing_since
        assert silent_ms >= self.timeout_ms or standing_ms >= self.limit_ms, writer
        why = "silent" if silent_ms >= self.timeout_ms else "standing still"
        if writer.holds_since is not None:  # a pass comes when the clock runs out
            over = (silent_ms - self.timeout_ms, standing_ms - self.limit_ms)
            assert min(ms for ms in over if ms >= 0) <= INTERVAL_MS, writer
        self._go_out(writer, why)
        self.expiries[writer.kind, why] += 1

    def _let_in(self, watermark: int) -> None:
        """Find who was let in as it approached."""
        for writer in self.writers.values():
            if writer.heard and not writer.live and self._is_in(writer):
                writer.live, writer.floor = True, watermark
                self.counts["let in by approach"] += 1
            writer.heard = False

    def _is_in(self, writer: Writer) -> bool:
        return self.core.state(writer.name) not in ("expired", "left")

    def _judge_mark(self, mark: Mark, before: int, revision: int) -> None:
        """Judge which rows are late at a mark, or were at the one before it."""
        for segment, rows in enumerate(self._rows):
            first = self._ends[segment] - len(rows)
            for _ in range(mark.cut.get(segment, 0) - first):
                row = rows.popleft()
                if row.time < before:
                    self._judge_late(row, revision)
        for writer in self.writers.values():
            if writer.live:
                for row in writer.unreported:
                    assert not writer.floor <= row.time < mark.lower, (
                        f"late: {row.time}, {writer}"
                    )

    def _judge_late(self, row: Row, revision: int) -> None:
        """Judge a row that the marks up to a revision passed by."""
        writer = row.writer
        assert row.reported_at is None or row.reported_at >= revision, f"reported: {writer}"
        assert not writer.live or row.time < writer.floor, f"late: {row.time}, {writer}"
        self.late[writer.kind, writer.why] += 1

    def _judge_holds(self, *, is_new: bool) -> None:
        """Nobody holds the others for longer than the settings allow."""
        watermark = self.watermark
        is_waiting = self._greatest() > watermark
        if is_new or not is_waiting:
            self._stood_since = None
        if not is_waiting:
            for one in self.writers.values():
                one.holds_since = None
            return
        if self._stood_since is None:
            self._stood_since = self.busy_ms
        self.longest_stand_ms = max(self.longest_stand_ms, self.busy_ms - self._stood_since)
        live = [one for one in self.writers.values() if one.live]
        least = min(map(_stand, live), default=0)
        for one in live:
            if _stand(one) > least or least > watermark:
                one.holds_since = None
                continue
            if one.silent_since is not None and one.standing_since is not None:
                assert self._silence.ms - one.silent_since < self.timeout_ms, one
                assert self._limit.ms - one.standing_since < self.limit_ms, one
            if one.holds_since is None or is_new:
                one.holds_since = self.busy_ms
            held_ms = self.busy_ms - one.holds_since
            self.longest_ms[one.kind] = max(self.longest_ms[one.kind], held_ms)


def _stand(writer: Writer) -> int:
    return FIRST_TIME if writer.stand is None else writer.stand
