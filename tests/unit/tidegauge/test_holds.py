"""Holds of some nights; that they are right in general is in tests/property/test_holds.py."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest

from tests.property.memory import Memory
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.holds import Hold
from tidegauge.topology import Topology

START = 1_700_000_000_000
HOUR = 3_600


class Night:
    """A stream whose clock is set by hand, in seconds since it began; each call is a commit."""

    def __init__(self, **settings: Any) -> None:
        never = {"aggregation_timeout_ms": None, "hold_limit_ms": None}
        self.settings = StreamSettings(max_future_skew_ms=None, **{**never, **settings})
        self.core = Aggregator("s/s", self.settings, Topology.of_partitions(1))
        self.memory = Memory()
        self.step_ms = 0
        self.at_s = 0.0
        self.holds: list[Hold] = []
        self.long: list[Hold] = []

    @property
    def now(self) -> Now:
        ms = round(self.at_s * 1_000)
        return Now(START + ms + self.step_ms, 1_000 + ms)

    @property
    def held_s(self) -> float | None:
        """For how long somebody is held, as `why` and the metric say."""
        held_ms = self.core.inspect(self.now).held_ms
        return None if held_ms is None else held_ms / 1_000

    def note(self, at_s: float, *writers: str) -> None:
        """Some writers note the present."""
        self.at_s = at_s
        for writer in writers:
            self.core.note_time(writer, self.now.wall_ms, {}, now=self.now)
        self.commit()

    def commit(self) -> None:
        outcome = self.core.run_pass(self.now)
        self.long += [outcome.long_hold] if outcome.long_hold else []
        changes = self.core.take_changes()
        self.memory.apply(changes)
        self.holds += changes.holds

    def restart(self) -> None:
        stored, topology = self.memory.stored(), self.core.topology
        self.core = Aggregator.restore("s/s", self.settings, topology, stored)

    def told(self) -> list[tuple[float, float, str, str | None]]:
        """Return since when, until when, who and how, of each span."""
        return [
            (
                (one.since_ms - START) / 1_000,
                (one.until_ms - START) / 1_000,
                one.writer,
                one.end,
            )
            for one in self.holds
        ]


def _in_turn(writers: str, *, every_s: int, until_s: int) -> Iterable[tuple[int, str]]:
    """Return when each of some writers notes: in turn, each as often."""
    step = every_s // len(writers)
    return ((at, writers[at // step % len(writers)]) for at in range(0, until_s, step))


def test_a_fleet_that_notes_once_a_minute_holds_nobody() -> None:
    night = Night()
    for at, writer in _in_turn("abc", every_s=60, until_s=2 * HOUR):
        night.note(at, writer)
    (first,) = night.told()  # before its pace is known
    assert first == (20, 60, "a", "noted")
    assert night.core.current_hold(night.now) is None


def test_a_dead_writer_of_such_a_fleet_is_held_for_all_of_the_time() -> None:
    night = Night()
    for at, writer in _in_turn("abc", every_s=60, until_s=2 * HOUR):
        if writer != "b" or at < HOUR:
            night.note(at, writer)
    current = night.core.current_hold(night.now)
    assert current is not None
    assert (current.writer, current.end, current.reported) == ("b", None, False)
    assert night.held_s == pytest.approx(HOUR, abs=100)
    assert [one.writer for one in night.long] == ["b"]


def test_a_shop_that_is_closed_for_a_night_is_held_for_five_minutes() -> None:
    night, most = Night(aggregation_timeout_ms=60_000), 0.0
    for at in range(0, 120, 10):
        night.note(at, "till-1", "till-2")
    night.note(130, "till-1")  # the other one was closed 20 s before
    for before, after in pairwise(range(130, 12 * HOUR, 60)):
        night.at_s = (before + after) / 2
        most = max(most, night.held_s or 0.0)
    assert 240 <= most <= 300
    night.note(12 * HOUR, "till-1", "till-2")
    (hold,) = night.holds
    assert (hold.writer, hold.held_ms, hold.end) == ("till-2", 300_000, "noted")
    assert hold.until_ms - hold.since_ms == hold.silence_ms == (12 * HOUR - 130) * 1_000


def test_a_hold_goes_on_over_a_restart_and_names_the_outage() -> None:
    night = Night()
    night.note(0, "a", "b")
    night.note(1, "a")
    night.restart()
    night.step_ms = 3_600_000
    night.note(61, "a", "b")
    (hold,) = night.holds
    assert night.told() == [(1, 3_661, "b", "noted")]
    assert (hold.unheard_ms, hold.held_ms) == (3_600_000, 60_000)


def test_a_wall_clock_that_steps_back_hides_no_span_and_ends_none_before_it_begins() -> None:
    night = Night()
    night.note(3_600, "a", "b")
    night.note(3_601, "a")
    night.at_s = 3_660
    night.core.register("c", now=night.now)
    night.commit()
    night.step_ms = -3_600_000
    for at_s, writer in ((3_680, "b"), (3_689, "c")):
        night.at_s = at_s
        known = night.core.incarnation(writer) or None
        night.core.leave(writer, now=night.now, incarnation=known)
        night.commit()
    assert night.told() == [(1, 80, "b", "left"), (80, 89, "c", "left")]


def test_patience_is_four_times_the_mean_distance_of_marks_in_which_a_stall_counts_little() -> (
    None
):
    night = Night()
    for at in range(0, HOUR, 60):
        night.note(at, "a")
    assert night.core.inspect(night.now).patience_ms == pytest.approx(240_000, rel=0.001)
    night.note(10 * HOUR, "a")
    assert night.core.inspect(night.now).patience_ms == pytest.approx(
        4 * (60_000 + 180_000 / 8), rel=0.001
    )


def test_a_hold_of_a_minute_is_told_once_though_it_has_two_spans() -> None:
    night = Night()
    night.note(0, "a", "b")
    for at in range(1, 300, 5):
        if at == 101:
            night.core.register("c", now=night.now)
        if at == 201:
            night.core.leave("b", now=night.now)
        night.note(at, "a")
    assert [one.writer for one in night.holds] == ["b"]
    (long,) = night.long
    assert long.writer == "b"
    assert 60_000 <= long.until_ms - long.began_ms < 66_000
