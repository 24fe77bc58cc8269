"""Holds of some nights; that they are right in general is in tests/property/test_holds.py."""

import pytest

from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.holds import Hold
from tidegauge.topology import Topology

START = 1_700_000_000_000
HOUR = 3_600


class Night:
    """A stream whose clock is set by hand, in seconds since it began; each call is a commit."""

    def __init__(self) -> None:
        settings = StreamSettings(
            aggregation_timeout_ms=None, hold_limit_ms=None, max_future_skew_ms=None
        )
        self.core = Aggregator("s/s", settings, Topology.of_partitions(1))
        self.step_ms = 0
        self.at_s = 0.0
        self.holds: list[Hold] = []
        self.long: list[Hold] = []

    @property
    def now(self) -> Now:
        ms = round(self.at_s * 1_000)
        return Now(START + ms + self.step_ms, 1_000 + ms)

    def note(self, at_s: float, *writers: str) -> None:
        """Some writers note the present."""
        self.at_s = at_s
        for writer in writers:
            self.core.note_time(writer, self.now.wall_ms, {}, now=self.now)
        self.commit()

    def commit(self) -> None:
        outcome = self.core.run_pass(self.now)
        self.long += [outcome.long_hold] if outcome.long_hold else []
        self.holds += self.core.take_changes().holds

    def told(self) -> list[tuple[int, int, str, str | None]]:
        """Return since when, until when (s), who and how, of each span."""
        spans = ((one.since_ms - START, one.until_ms - START, one) for one in self.holds)
        return [
            (since // 1_000, until // 1_000, one.writer, one.end) for since, until, one in spans
        ]


def test_a_wall_clock_that_steps_back_hides_no_span_and_ends_none_before_it_begins() -> None:
    night = Night()
    night.note(3_600, "a", "b")
    night.note(3_601, "a")
    night.at_s = 3_660
    night.core.register("c", now=night.now)
    night.commit()
    assert night.core.inspect(night.now).held_ms == 59_000
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
