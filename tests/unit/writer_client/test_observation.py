"""Whose time an observer notes, which, and where: without a clock, a log or a service."""

from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from writer_client._notes import BULK, Last, Note
from writer_client.observing.observation import (
    Observation,
    Row,
    resume_at,
    stride,
)
from writer_client.observing.partition import Look
from writer_client.observing.rules import parse_guess
from writer_client.observing.sources import Sources

NOW = 1_000_000
FAR = 2**62


def _observation(
    *writers: str,
    guess: str = "bounded:10ms",
    idle_ms: int | None = None,
    hold_ms: int | None = None,
) -> Observation:
    """Observe partitions 0 and 1 from offset 5, with registered writers; what has none ends there."""
    observation = Observation(parse_guess(guess), idle_ms=idle_ms, hold_ms=hold_ms)
    for partition in (0, 1):
        observation.partitions.assign(partition, 5)
    named = {int(writer[-1]) for writer in writers}
    observation.partitions.look(Look(0, dict.fromkeys({0, 1} - named, 5)))
    for writer in writers:
        observation.sources.expect(writer, int(writer[-1]))
        observation.admit(writer, 100, 0)
    return observation


def _read(
    observation: Observation,
    writer: str | None,
    offset: int,
    time: int | None,
    *,
    partition: int | None = None,
    logged_ms: int | None = None,
) -> None:
    place = int(writer[-1]) if partition is None and writer else partition or 0
    row = Row(writer, place, offset, time, logged_ms)
    observation.read(row, latest_ms=FAR, wall_ms=NOW)


def _notes(observation: Observation, now_ms: int = 0) -> list[tuple[str, int, object]]:
    return [(one.writer, one.time, dict(one.position)) for one in observation.notes(now_ms)]


def test_nothing_is_noted_twice_but_when_a_beat_is_due() -> None:
    observation = _observation("a.0", "b.0")
    observation.beat_ms = 20
    _read(observation, "a.0", 5, 5_000)
    # Who has noted nothing stands where it was told.
    assert _notes(observation, 20) == [("a.0", 100, {0: 6}), ("b.0", 100, {0: 5})]
    _read(observation, "b.0", 6, 5_000)
    for note in observation.notes(20):
        observation.accept(note, 20)
    assert _notes(observation, 39) == []
    assert _notes(observation, 40) == [("a.0", 4_990, {0: 6}), ("b.0", 4_990, {0: 7})]


def test_the_clock_stands_while_the_end_is_not_reached() -> None:
    observation = _observation("0", guess="lag:1s")
    _read(observation, "0", 5, 1)
    assert _notes(observation) == []
    observation.partitions.look(Look(50_000, {0: 8}))
    assert _notes(observation) == []
    _read(observation, "0", 6, 1)
    observation.partitions.look(Look(60_000, {0: 9}))  # the first is not reached yet
    _read(observation, "0", 7, 1)
    assert _notes(observation) == [("0", 49_000, {0: 8})]


def test_silence_passes_with_records_of_others_and_with_looks_at_the_end() -> None:
    observation = _observation("a.0", "b.0", idle_ms=100)
    _read(observation, "a.0", 5, 5_000, logged_ms=1_000)
    _read(observation, "b.0", 6, 6_000, logged_ms=1_060)
    observation.partitions.look(Look(1_099, {0: 7}))
    assert observation.sources.silent() == []
    observation.partitions.look(Look(1_105, {0: 7}))
    assert observation.sources.silent() == []
    _read(observation, "b.0", 7, 6_000, logged_ms=1_112)
    assert observation.sources.silent() == [Last("a.0", 100, {0: 6})]
    observation.sources.leave("a.0")
    assert _notes(observation) == [("b.0", 5_990, {0: 8})]
    _read(observation, "a.0", 8, 9_000)
    assert observation.sources.newcomers() == ["a.0"]
    assert (observation.sources.counts.seen, observation.sources.counts.silent) == (
        {"a.0", "b.0"},
        set(),
    )


def test_what_comes_after_a_look_that_saw_it_is_heard_then_and_noted_before_anybody_is_silent() -> (
    None
):
    observation = _observation("a.0", "b.0", idle_ms=100)
    _read(observation, "a.0", 5, 5_000, logged_ms=1_000)
    observation.partitions.look(Look(1_060, {0: 8}))  # behind an open transaction
    observation.partitions.look(Look(1_900, {0: 8}))
    assert observation.sources.silent() == []
    _read(observation, "a.0", 6, 6_000)
    _read(observation, "b.0", 7, 6_000)
    observation.partitions.look(Look(2_000, {0: 8}))
    assert observation.sources.silent() == []
    assert _notes(observation) == [("a.0", 5_990, {0: 7}), ("b.0", 5_990, {0: 8})]
    observation.partitions.look(Look(2_050, {0: 8}))
    assert len(observation.sources.silent()) == 2


def test_who_left_for_its_silence_counts_as_silent_until_it_is_read_or_another_reads_it() -> (
    None
):
    observation = _observation("a.0", "b.1")
    observation.sources.leave("a.0")
    observation.sources.leave("b.1")
    assert observation.sources.counts.silent == {"a.0", "b.1"}
    _read(observation, "a.0", 5, 5_000)
    assert observation.sources.counts.silent == {"b.1"}
    observation.revoke(1)
    assert (observation.sources.counts.seen, observation.sources.counts.silent) == (
        {"a.0"},
        set(),
    )


def test_who_was_never_heard_leaves_before_those_it_held() -> None:
    observation = _observation("a.0", "b.1", idle_ms=100)
    _read(observation, "a.0", 5, 5_000, logged_ms=1_000)
    for wall_ms in (1_050, 1_100, 1_150, 1_200):
        observation.partitions.look(Look(wall_ms, {0: 6, 1: 5}))
    assert (
        observation.sources.silent()
        == observation.sources.unheard()
        == [Last("b.1", 100, {1: 5})]
    )
    observation.sources.leave("b.1")
    assert _notes(observation) == [("a.0", 4_990, {0: 6})]
    assert [one.writer for one in observation.sources.silent()] == ["a.0"]


def test_nobody_speaks_for_a_partition_that_is_revoked() -> None:
    observation = _observation("a.0", "b.1")
    _read(observation, "a.0", 5, 5_000)
    _read(observation, "b.1", 5, 5_000)
    observation.revoke(1)
    _read(observation, "b.1", 6, 1)
    assert _notes(observation) == [("a.0", 4_990, {0: 6})]
    observation.accept(Note("b.1", 1, {}), 0)
    assert observation.sources.count == 1


def test_who_is_given_up_is_read_past_until_its_partition_is_assigned_anew() -> None:
    observation = _observation("a.0", "b.0")
    _read(observation, "b.0", 5, 5_000)
    observation.sources.give_up("a.0")
    _read(observation, "a.0", 6, 1)
    assert (_notes(observation), observation.partitions.position[0]) == (
        [("b.0", 4_990, {0: 6})],
        7,
    )
    observation.revoke(0)
    observation.partitions.assign(0, 7)
    _read(observation, "a.0", 7, 5_000)
    assert observation.sources.newcomers() == ["a.0"]


def test_rows_below_a_kept_step_that_is_left_out_are_not_late() -> None:
    observation = _observation("a.0")
    for writer, time in [("a.0", 1_000), ("a.0", 2_000), ("a.0", 1_600), ("new.0", 1_500)]:
        _read(observation, writer, observation.partitions.position[0], time)
        observation.step()
    _read(observation, "a.0", 9, 980)
    assert _notes(observation) == [("a.0", 990, {0: 6})]
    assert observation.sources.counts.late == 1
    _read(observation, "a.0", 10, 3_000)
    assert _notes(observation) == [("a.0", 1_490, {0: 11})]


def test_progress_by_the_resolution_of_marks_is_noted_in_steps() -> None:
    observation = _observation("a.0", "b.1")
    observation.resolution_ms = 100
    steps = [("a.0", 5, 1_000), ("b.1", 5, 1_050), ("a.0", 6, 1_100), ("b.1", 6, 1_120)]
    for writer, offset, time in steps:
        _read(observation, writer, offset, time)
        observation.step()
    assert observation.has_steps
    assert _notes(observation) == [
        ("a.0", 990, {0: 6}),
        ("b.1", 990, {1: 6}),
        ("a.0", 1_090, {0: 7}),
        ("b.1", 1_090, {1: 7}),
    ]
    for note in observation.notes(0):
        observation.accept(note, 0)
    assert not observation.has_steps
    _read(observation, "a.0", 7, 1_199)
    _read(observation, "b.1", 7, 1_300)
    observation.step()
    assert not observation.has_steps


def test_steps_are_for_those_who_are_registered_and_spoken_for_when_they_are_sent() -> None:
    observation = _observation("a.0", "b.0", "c.1")
    for writer, offset in [("a.0", 5), ("b.0", 6), ("c.1", 5), ("new.0", 7)]:
        _read(observation, writer, offset, 1_000)
    observation.step()
    observation.sources.give_up("b.0")
    assert [one.writer for one in observation.notes(0)] == ["a.0", "c.1"]
    _read(observation, "a.0", 8, 2_000)
    _read(observation, "c.1", 6, 2_000)
    _read(observation, "new.0", 9, 2_000)
    observation.step()
    observation.revoke(1)
    observation.admit("new.0", None, 0)
    assert {one.writer for one in observation.notes(0)} == {"a.0", "new.0"}


def test_nothing_is_noted_below_what_may_have_arrived() -> None:
    observation = _observation("a.0")
    _read(observation, "a.0", 5, 1_000)
    observation.step()
    _read(observation, "a.0", 6, 2_000)
    assert [time for _, time, _ in _notes(observation)] == [990]
    assert [time for _, time, _ in _notes(observation)] == [1_990]
    # Nobody answered: it is said again, but nothing lower.
    assert [time for _, time, _ in _notes(observation)] == [1_990]
    _read(observation, "new.0", 7, 1_500)
    assert _notes(observation) == []


def test_steps_that_cannot_be_sent_are_no_more_than_a_call_takes() -> None:
    observation = _observation("a.0")
    for offset in range(5, 2_005):
        _read(observation, "a.0", offset, offset * 1_000)
        observation.step()
    assert len(observation.notes(0)) == BULK


def test_a_step_costs_no_more_than_there_are_writers() -> None:
    assert [stride(5_000, writers) for writers in (0, 1, 10, 999, 1_000)] == [
        5,
        5,
        50,
        5_000,
        5_000,
    ]
    assert [stride(7, writers) for writers in (1, 500)] == [1, 4]
    assert stride(5_000, 1_001) is None


MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
EPOCH = 20_000 * DAY
Tell = Callable[[int], int]
"""Tells the event time of a record by when it is stored."""


def _honest(clock_ms: int) -> int:
    return clock_ms - 1_000


class _Watched:
    """An observer at the end of one partition, of which each source writes every five seconds."""

    def __init__(self, **tells: Tell) -> None:
        self.observation = Observation(
            parse_guess("bounded:1s"), idle_ms=None, hold_ms=10 * MINUTE
        )
        self.observation.partitions.assign(0, 0)
        self.tells = tells
        self.clock_ms = EPOCH
        self.noted: dict[str, list[int]] = {}

    def go_on(self, for_ms: int, *writers: str) -> None:
        """Go on, with all sources or only some."""
        for _ in range(for_ms // 5_000):
            self.clock_ms += 5_000
            for writer in writers or self.tells:
                self._write(writer, self.tells[writer](self.clock_ms))
            self.observation.partitions.look(
                Look(self.clock_ms, self.observation.partitions.position)
            )
            for writer in self.observation.sources.newcomers():
                self.observation.admit(writer, None, self.clock_ms)
            for last in self.observation.sources.overdue():
                self.observation.sources.leave_out(last.writer)
            for note in self.observation.notes(self.clock_ms):
                self.noted.setdefault(note.writer, []).append(note.time)
                self.observation.accept(note, self.clock_ms)

    def _write(self, writer: str, time: int) -> None:
        row = Row(writer, 0, self.observation.partitions.position[0], time, self.clock_ms)
        self.observation.read(row, latest_ms=self.clock_ms + HOUR, wall_ms=self.clock_ms)

    @property
    def sources(self) -> Sources:
        return self.observation.sources

    @property
    def watermark(self) -> int:
        """Where the live ones stand, as the service sees it."""
        out = self.sources.left_out
        return min(times[-1] for name, times in self.noted.items() if name not in out)


_BROKEN: dict[str, tuple[Tell, int | None]] = {
    "1970": (lambda _: 0, 20_000 * DAY),
    "1970 plus uptime": (lambda clock_ms: clock_ms - EPOCH, 20_000 * DAY),
    "2100": (lambda clock_ms: clock_ms + 27_000 * DAY, None),
}


@pytest.mark.parametrize(("tell", "behind_ms"), _BROKEN.values(), ids=_BROKEN)
def test_a_source_with_a_broken_clock_is_left_out_after_the_hold_limit(
    tell: Tell, behind_ms: int | None
) -> None:
    watched = _Watched(a=_honest, b=_honest, broken=tell)
    watched.go_on(10 * MINUTE)
    # The others go ahead, so that the service sees who holds, and says so.
    assert watched.noted["a"][-1] == watched.noted["b"][-1] == watched.clock_ms - 2_000
    assert watched.noted.get("broken", [0])[-1] < 10 * MINUTE
    assert watched.sources.left_out == {}
    assert watched.sources.holding.keys() == {"broken"}
    if behind_ms is not None:
        held_ms = watched.sources.holding["broken"]
        assert held_ms == pytest.approx(behind_ms, abs=20 * MINUTE)
    watched.go_on(MINUTE)
    assert watched.sources.holding == {}
    assert watched.sources.left_out.keys() == {"broken"}
    assert watched.sources.count == 2
    assert watched.watermark == watched.clock_ms - 2_000


def test_several_that_are_broken_alike_are_left_out_together() -> None:
    tells: dict[str, Tell] = {f"a{number}": _honest for number in range(4)}
    tells |= {f"b{number}": lambda clock_ms: clock_ms - EPOCH for number in range(3)}
    watched = _Watched(**tells, c=lambda _: 365 * DAY, d=lambda clock_ms: clock_ms * 2)
    watched.go_on(11 * MINUTE)
    assert watched.sources.left_out.keys() == {"b0", "b1", "b2", "c", "d"}


def test_a_source_that_catches_up_is_not_left_out() -> None:
    watched = _Watched(a=_honest)
    watched.go_on(MINUTE)
    began_ms = watched.clock_ms
    watched.tells["upload"] = lambda clock_ms: min(
        clock_ms - 1_000, began_ms - 15 * HOUR + 60 * (clock_ms - began_ms)
    )
    for _ in range(20):
        watched.go_on(MINUTE)
        assert watched.sources.left_out == {}
    assert watched.sources.holding == {}
    assert watched.watermark == watched.clock_ms - 2_000
    # Its times were noted as they came, for readers of what it uploads.
    steps = watched.noted["upload"]
    assert max(after - before for before, after in pairwise(steps)) < HOUR
    # The first one came below where the others were.
    assert watched.sources.counts.late == 1


def test_who_is_left_out_is_new_once_it_is_within_the_bound() -> None:
    watched = _Watched(a=_honest, broken=lambda _: 0)
    watched.go_on(11 * MINUTE)
    watched.tells["broken"] = lambda clock_ms: clock_ms - 11 * MINUTE
    watched.go_on(MINUTE)
    assert watched.sources.left_out == {"broken": 11 * MINUTE - 1_000}
    watched.tells["broken"] = lambda clock_ms: clock_ms - 5 * MINUTE
    watched.go_on(5_000)
    assert (watched.sources.left_out, watched.sources.newcomers()) == ({}, ["broken"])
    watched.go_on(10 * MINUTE)
    assert watched.watermark == watched.clock_ms - 5 * MINUTE - 1_000


def test_time_passes_for_who_holds_only_while_others_go_on() -> None:
    watched = _Watched(a=_honest, broken=lambda _: 0)
    watched.go_on(MINUTE)
    watched.go_on(HOUR, "broken")
    watched.go_on(3 * MINUTE)
    assert watched.sources.left_out == {}
    watched.go_on(2 * MINUTE)
    assert watched.sources.left_out.keys() == {"broken"}


def test_with_nobody_to_compare_it_with_who_is_left_out_stays_so() -> None:
    watched = _Watched(a=_honest, broken=lambda _: 0)
    watched.go_on(11 * MINUTE)
    watched.sources.leave("a")
    watched.go_on(HOUR, "broken")
    assert watched.sources.left_out.keys() == {"broken"}


@pytest.mark.parametrize(
    "tells",
    [
        {"a": _honest, "b": _honest, "fast": lambda clock_ms: clock_ms + 50 * MINUTE},
        dict.fromkeys("abc", lambda clock_ms: clock_ms - DAY) | {"early": _honest},
    ],
    ids=["one clock is fast", "most are right, however far they are behind"],
)
def test_most_of_all_are_not_left_out(tells: dict[str, Tell]) -> None:
    watched = _Watched(**tells)
    watched.go_on(HOUR)
    assert (watched.sources.holding, watched.sources.left_out) == ({}, {})
    assert watched.watermark == min(tell(watched.clock_ms) for tell in tells.values()) - 1_000


class _Loaded:
    """A day in each of four partitions, stored within a second, and read one partition after the other."""

    ROWS = 1_000

    def __init__(self, *values: str) -> None:
        """Observe by these values, or by partition."""
        self.observation = Observation(
            parse_guess("bounded:0s"), idle_ms=None, hold_ms=10 * MINUTE
        )
        self.observation.resolution_ms = 5 * MINUTE
        self.values = values
        for partition in range(4):
            self.observation.partitions.assign(partition, 0)
            if not values:
                self.observation.sources.expect(str(partition), partition)
        self.observation.partitions.look(Look(EPOCH, dict.fromkeys(range(4), self.ROWS)))
        self.noted: list[Note] = []

    def read(self, partition: int, *, late_ms: int = 0, broken: str = "") -> None:
        """Read a partition to its end; its events are so much older, or have a broken clock."""
        for offset in range(self.ROWS):
            value = self.values[offset % len(self.values)] if self.values else None
            writer = str(partition) if value is None else f"{value}.{partition}"
            time = EPOCH - DAY + offset * DAY // self.ROWS - late_ms
            row = Row(writer, partition, offset, 0 if value == broken else time, EPOCH + offset)
            self.observation.read(row, latest_ms=FAR, wall_ms=FAR)
            self.observation.step()
            if offset % 100 == 99:
                self._report()

    def _report(self) -> None:
        for writer in self.observation.sources.newcomers():
            self.observation.admit(writer, None, 0)
        for note in self.observation.notes(0):
            self.noted.append(note)
            self.observation.accept(note, 0)


@pytest.mark.parametrize("values", [(), ("a", "b", "c")], ids=["by partition", "by key"])
def test_a_backlog_that_was_loaded_at_once_is_noted_in_steps(values: tuple[str, ...]) -> None:
    loaded = _Loaded(*values)
    for partition in range(4):
        loaded.read(partition)
        assert loaded.observation.sources.holding == {}
    assert len({note.time for note in loaded.noted}) > 200
    assert loaded.observation.sources.counts.late == 0


def test_in_a_backlog_a_source_with_a_broken_clock_is_behind_those_of_its_partition() -> None:
    loaded = _Loaded("a", "b", "broken")
    for partition in range(4):
        loaded.read(partition, broken="broken")
    assert loaded.observation.sources.holding.keys() == {
        f"broken.{number}" for number in range(4)
    }
    assert len({note.time for note in loaded.noted}) > 200


def test_a_partition_is_behind_the_others_once_it_was_read_to_its_end() -> None:
    loaded = _Loaded()
    for partition in range(3):
        loaded.read(partition)
    assert loaded.observation.sources.holding == {}
    loaded.read(3, late_ms=HOUR)
    assert loaded.observation.sources.holding == {"3": HOUR}


def test_a_guess_by_the_clock_leaves_nobody_out() -> None:
    observation = _observation("a.0", "b.0", guess="lag:1s", hold_ms=1)
    for offset in range(5, 50, 2):
        _read(observation, "a.0", offset, offset * MINUTE, logged_ms=offset)
        _read(observation, "b.0", offset + 1, 0, logged_ms=offset)
        observation.notes(0)
    assert observation.sources.holding == {}


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2 * HOUR)), max_size=80),
    st.integers(1, HOUR),
)
def test_the_newest_is_never_left_out_and_nobody_is_for_less_than_the_limit(
    records: list[tuple[str, int]], hold_ms: int
) -> None:
    observation = Observation(parse_guess("bounded:0s"), idle_ms=None, hold_ms=hold_ms)
    observation.partitions.assign(0, 0)
    for offset, (writer, lag_ms) in enumerate(records):
        stored_ms = EPOCH + offset * MINUTE
        row = Row(writer, 0, offset, stored_ms - lag_ms, stored_ms)
        observation.read(row, latest_ms=FAR, wall_ms=FAR)
        for name in observation.sources.newcomers():
            observation.admit(name, None, 0)
        for note in observation.notes(0):
            assert note.writer not in observation.sources.left_out
            observation.accept(note, 0)
        for last in observation.sources.overdue():
            assert offset * MINUTE >= hold_ms
            observation.sources.leave_out(last.writer)
        behind = {**observation.sources.holding, **observation.sources.left_out}
        assert len(behind) < max(
            1, observation.sources.count + len(observation.sources.left_out)
        )
        assert all(
            behind_ms is not None and behind_ms > hold_ms for behind_ms in behind.values()
        )


def test_reading_goes_on_at_the_greatest_position_of_the_partition() -> None:
    assert resume_at([{0: 5}, {0: 9}, {1: 20}], 0) == 9
    assert resume_at([{1: 20}], 0) is None


_STEPS = st.lists(
    st.tuples(st.sampled_from(["a.0", "b.0", "c.1"]), st.integers(0, 2_000), st.booleans())
)


@given(_STEPS)
def test_no_note_is_above_a_guess_goes_back_or_covers_what_is_not_read(
    steps: Iterable[tuple[str, int, bool]],
) -> None:
    observation = _observation("a.0", "b.0", "c.1")
    ends, newest, noted = [5, 5], dict[str, int](), dict[str, int]()
    for writer, time, notes in steps:
        partition = int(writer[-1])
        _read(observation, writer, ends[partition], time)
        ends[partition] += 1
        newest[writer] = max(time, newest.get(writer, time))
        for note in observation.notes(0) if notes else []:
            assert len(newest) == 3
            assert note.time == min(newest.values()) - 10
            assert note.time > noted.get(note.writer, note.time - 1)
            assert all(offset <= ends[place] for place, offset in note.position.items())
            noted[note.writer] = note.time
            observation.accept(note, 0)


@given(_STEPS)
def test_a_row_counts_as_late_if_its_writer_has_noted_a_time_above_it_before_it(
    steps: Iterable[tuple[str, int, bool]],
) -> None:
    observation = _observation("a.0", "b.0", "c.1")
    ends, rows, noted = [5, 5], list[tuple[str, int, int]](), list[Note]()
    for writer, time, notes in steps:
        partition = int(writer[-1])
        rows.append((writer, ends[partition], 100 + time))  # where they begin
        _read(observation, writer, ends[partition], 100 + time)
        ends[partition] += 1
        observation.step()
        for note in observation.notes(0) if notes else []:
            noted.append(note)
            observation.accept(note, 0)
    noted += observation.notes(0)
    assert observation.sources.counts.late == sum(
        any(
            note.writer == writer
            and note.time > time
            and note.position[int(writer[-1])] <= offset
            for note in noted
        )
        for writer, offset, time in rows
    )
