"""Planning a batch: a pure function of where the query is and what the stream says.

All that is planned is in the offset, so that a replayed batch has the same rows and bound. The
start of a query's first batch is planned too, and so it is in the offset as well: Spark does not
log it, but asks for it anew when it replays that batch.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_source.options.load import Admission
from tidegauge.event_time import END_OF_TIME
from tidegauge.lattice import count_between, covers, cut_of, down_set, join
from tidegauge.marks import Mark
from tidegauge.topology import Position, Topology
from tidegauge.windows import count_passed


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the first batch of a query begins; its attributes are those of an `Offset`."""

    position: Position
    bound: int | None
    revision: int

    def to_json(self) -> dict[str, Any]:
        """Write it with a stable order of keys."""
        return {
            "position": _position_to_json(self.position),
            "bound": self.bound,
            "revision": self.revision,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Origin":
        """Read it back."""
        return cls(_position_from_json(stored["position"]), stored["bound"], stored["revision"])


@dataclass(frozen=True, slots=True)
class Offset:
    """Where a query is.

    Attributes
    ----------
    stream_id
        Of the stream; another one cannot be read on.
    position
        A stream cut.
    bound
        No later batch has an event below it, ms; None before the first mark.
    revision
        Of the newest mark that the position covers.
    run
        Counts the starts of the query; 0 before its first batch.
    origin
        Where the query's first batch began; None before it is planned, and in checkpoints that
        were begun before offsets had it.
    log_id
        Of the log, if it has one apart from the stream's; another one cannot be read on.
    """

    stream_id: str
    position: Position
    bound: int | None
    revision: int
    run: int
    origin: Origin | None = None
    log_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Write it with a stable order of keys: Spark compares the text."""
        written = {
            "stream_id": self.stream_id,
            "position": _position_to_json(self.position),
            "bound": self.bound,
            "revision": self.revision,
            "run": self.run,
        }
        if self.origin is not None:
            written["origin"] = self.origin.to_json()
        if self.log_id is not None:
            written["log_id"] = self.log_id
        return written

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Offset":
        """Read it back."""
        return cls(
            stream_id=stored["stream_id"],
            position=_position_from_json(stored["position"]),
            bound=stored["bound"],
            revision=stored["revision"],
            run=stored["run"],
            origin=Origin.from_json(stored["origin"]) if "origin" in stored else None,
            log_id=stored.get("log_id"),
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """A planned batch, as long as it is the newest: Spark names its end three times.

    Attributes
    ----------
    start, end
        Where it begins and ends.
    written
        Both, as Spark has them.
    """

    start: Offset
    end: Offset
    written: tuple[dict[str, Any], dict[str, Any]]

    @classmethod
    def from_json(cls, start: dict[str, Any], end: dict[str, Any]) -> "Batch":
        """Read a batch of a run before, which Spark repeats."""
        return cls(Offset.from_json(start), Offset.from_json(end), (start, end))


def _position_to_json(position: Position) -> dict[str, int]:
    return {str(number): position[number] for number in sorted(position)}


def _position_from_json(stored: Mapping[str, int]) -> Position:
    return {int(number): offset for number, offset in stored.items()}


@dataclass(frozen=True, slots=True)
class View:
    """What is known of a stream.

    Attributes
    ----------
    topology
        Its segments.
    marks
        Oldest first, from the first beyond where the query is; where they are too many, some
        below the time that the batch has to reach are left out.
    is_newest
        Whether the last of the marks is the newest.
    tail
        Next offset of each segment that can be read.
    """

    topology: Topology
    marks: Sequence[Mark]
    is_newest: bool
    tail: Position


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a batch may take.

    Attributes
    ----------
    admission
        ``tail`` reads on beyond the newest mark, ``marks`` does not.
    max_rows
        May stop between two cuts; None for no limit.
    max_event_time_ms
        A batch ends at a mark at or above the next multiple of it; with ``marks`` it waits for
        that mark, and so ends there live and replayed alike.
    min_time_step_ms
        Time alone makes a batch when it rose by this.
    end
        Where a bounded read ends; None for never.
    """

    admission: Admission = "tail"
    max_rows: int | None = None
    max_event_time_ms: int | None = None
    min_time_step_ms: int = 1_000
    end: Position | None = None


def plan(start: Offset, view: View, limits: Limits, *, run: int, is_settled: bool) -> Offset:
    """Plan the end of the next batch; the start itself if there is nothing to do.

    A batch follows if the run is another than the start's. Settled time has stood still for so
    long that a smaller step is worth a batch.
    """
    view = replace(view, marks=_readable(view))
    goal = time_to_reach(start, limits)
    if goal is not None:
        # Later marks may share the cut: live they are unknown yet, and must not count in a replay.
        view = replace(view, marks=_marks_to(goal, view.marks))
    target = _target(start, view, limits)
    target = _within_end(view.topology, target, limits.end)
    position = _within_rows(start.position, target, view.topology, limits.max_rows)
    end = _with_bound(start, position, view, run=run)
    if _is_worth_a_batch(start, end, limits, is_settled=is_settled or goal is not None):
        return end
    return start


def begin(start: Offset, end: Offset) -> Offset:
    """Find where a planned batch begins: at what Spark says, but for the first at the origin."""
    if start.run > 0 or end.origin is None:
        return start
    origin = end.origin
    return replace(
        start, position=origin.position, bound=origin.bound, revision=origin.revision
    )


def time_to_reach(start: Offset, limits: Limits) -> int | None:
    """Find the event time, ms, that a mark has to reach for a batch; None if any mark will do."""
    if limits.admission == "tail":
        return None
    return _time_goal(start.bound, limits.max_event_time_ms)


def rows_between(topology: Topology, start: Position, end: Position) -> dict[int, range]:
    """List the offsets of each segment that a batch reads."""
    begun = down_set(topology, start)
    return {
        number: range(begun.get(number, 0), count)
        for number, count in sorted(down_set(topology, end).items())
        if count > begun.get(number, 0)
    }


def divided(offsets: range, most: int | None) -> list[range]:
    """Divide offsets into equal parts of at most so many; None for no limit."""
    if most is None or len(offsets) <= most:
        return [offsets]
    parts = -(-len(offsets) // most)
    size = -(-len(offsets) // parts)
    return [offsets[at : at + size] for at in range(0, len(offsets), size)]


def _readable(view: View) -> Sequence[Mark]:
    """List the marks that can be reached: one whose cut lies beyond what can be read waits.

    On Kafka that is so while a transaction is open before the cut.
    """
    marks, tail = view.marks, {n: at for n, at in view.tail.items() if n in view.topology}
    if not marks or covers(view.topology, tail, marks[-1].cut):
        return marks
    return marks[: count_passed(view.topology, marks, tail)]


def _marks_to(goal: int, marks: Sequence[Mark]) -> Sequence[Mark]:
    """List the marks up to the first that reaches an event time; none while it is awaited."""
    at = bisect_left(marks, goal, key=lambda mark: mark.lower)
    return marks[: at + 1] if at < len(marks) else []


def _target(start: Offset, view: View, limits: Limits) -> Position:
    """Choose the end of the batch but for the limits on rows and the end of the read."""
    topology, marks = view.topology, view.marks
    passed = count_passed(topology, marks, start.position)
    ahead = marks[passed:]
    if ahead:
        return join(topology, [start.position, _next_mark(start, ahead, view, limits)])
    if limits.admission == "marks" or not view.is_newest:
        return start.position
    # To the tail of what is open at the start; a successor waits for the next batch.
    begun = cut_of(topology, start.position)
    return join(topology, [start.position, {one: view.tail.get(one, 0) for one in begun}])


def _next_mark(start: Offset, ahead: Sequence[Mark], view: View, limits: Limits) -> Position:
    """Choose the cut of a mark ahead."""
    goal = _time_goal(start.bound, limits.max_event_time_ms)
    if goal is not None:
        at = bisect_left(ahead, goal, key=lambda mark: mark.lower)
        if at < len(ahead):
            return ahead[at].cut
    if limits.max_rows is None:
        return ahead[-1].cut
    allowed = limits.max_rows
    fitting = bisect_left(
        ahead,
        True,
        key=lambda mark: count_between(view.topology, start.position, mark.cut) > allowed,
    )
    return ahead[max(0, fitting - 1)].cut


def _time_goal(bound: int | None, step_ms: int | None) -> int | None:
    """Find the next multiple of the step above the bound; before any mark, any mark will do.

    The final mark always will.
    """
    if step_ms is None:
        return None
    return -(2**63) if bound is None else min((bound // step_ms + 1) * step_ms, END_OF_TIME)


def _within_end(topology: Topology, target: Position, end: Position | None) -> Position:
    if end is None:
        return target
    wanted, last = down_set(topology, target), down_set(topology, end)
    return {number: min(count, last.get(number, 0)) for number, count in wanted.items()}


def _within_rows(
    start: Position, target: Position, topology: Topology, max_rows: int | None
) -> Position:
    """Stop between two cuts if need be, dividing over what is open at the start."""
    if max_rows is None or count_between(topology, start, target) <= max_rows:
        return target
    begun, wanted = down_set(topology, start), down_set(topology, target)
    lacking = sorted(
        (wanted.get(number, 0) - offset, number)
        for number, offset in cut_of(topology, start).items()
    )
    taken, left = dict(begun), max_rows
    for place, (rows, number) in enumerate(lacking):
        share = min(rows, max(1, left // (len(lacking) - place)), left)
        if share > 0:
            taken[number] = begun.get(number, 0) + share
            left -= share
    return taken


def _with_bound(start: Offset, position: Position, view: View, *, run: int) -> Offset:
    cut = cut_of(view.topology, position)
    passed = count_passed(view.topology, view.marks, cut)
    bound, revision = start.bound, start.revision
    if passed:
        newest = view.marks[passed - 1]
        revision = max(revision, newest.revision)
        bound = newest.lower if bound is None else max(bound, newest.lower)
    origin = start.origin
    if start.run == 0:
        origin = Origin(start.position, start.bound, start.revision)
    return Offset(start.stream_id, cut, bound, revision, run, origin, start.log_id)


def _is_worth_a_batch(start: Offset, end: Offset, limits: Limits, *, is_settled: bool) -> bool:
    if end.run != start.run or dict(end.position) != dict(start.position):
        return True
    if end.bound is None or end.bound == start.bound:
        return False
    rose = start.bound is None or end.bound - start.bound >= limits.min_time_step_ms
    return rose or is_settled
