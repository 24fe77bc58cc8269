"""Which times become marks, where there are more of them than one pass may emit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.model import lowers, marks_at_most
from tidegauge import Aggregator, Now, StreamSettings, Topology
from tidegauge.aggregation.thinning import most_marks, thinned


@given(
    gaps=st.lists(st.sampled_from([0, 1, 1, 2, 3, 10]), max_size=40),
    repeats=st.sampled_from([1, 1, 30, 70]),
    beyond=st.integers(0, 4),
    first=st.none() | st.integers(1, 4),
    steering=st.tuples(st.integers(0, 4), st.sampled_from([10, 11, 100, 1_000])),
)
def test_times_are_thinned_as_the_model_thins_them(
    gaps: list[int], repeats: int, beyond: int, first: int | None, steering: tuple[int, int]
) -> None:
    resolution_ms, most = steering
    times = [0]
    for gap in gaps * repeats:
        times.append(times[-1] + gap)
    watermark = None if first is None else -first
    target = times[-1] + beyond
    below = [time for time in dict.fromkeys(times) if time < target]
    expected = lowers(below, target, watermark, resolution_ms, most)
    assert thinned(times, target, watermark, resolution_ms, most=most) == expected


@pytest.mark.parametrize(
    ("times", "target", "kept"),
    [
        (range(999), 999, [*range(1_000)]),
        (range(1_000), 1_000, [*range(999), 1_000]),
        (range(1_998), 1_998, [*range(0, 1_998, 2), 1_998]),
    ],
    ids=["999 are all kept", "of 1000 the last is dropped", "of 1998 every other is kept"],
)
def test_of_times_below_the_target_as_many_are_kept_as_a_pass_emits(
    times: range, target: int, kept: list[int]
) -> None:
    assert thinned(times, target, None, 0) == kept


def test_a_pass_emits_at_most_1000_marks() -> None:
    assert len(thinned(range(100_000), 100_000, None, 0)) == 1_000


@given(st.integers(1, 1_000_000))
def test_the_cuts_of_one_pass_have_so_many_entries_as_the_model_says(segments: int) -> None:
    assert most_marks(segments) == marks_at_most(segments)


def test_up_to_1000_segments_take_1000_marks_and_more_take_fewer() -> None:
    segments = (0, 1, 1_000, 1_001, 4_000, 10_000, 10_000_000)
    assert [most_marks(one) for one in segments] == [1_000, 1_000, 1_000, 999, 250, 100, 10]


def test_a_pass_over_10000_partitions_makes_100_marks() -> None:
    core, now = Aggregator("a/b", StreamSettings(), Topology.of_partitions(10_000)), Now(0, 0)
    core.note_time("slow", 0, {}, now=now)
    core.run_pass(now)
    for second in range(1, 151):
        core.note_time("fast", second * 1_000, {second: 1}, now=now)
    core.note_time("slow", 150_000, {}, now=now)
    marks = core.run_pass(now).marks
    expected = [(i * 149 // 99 + 1) * 1_000 for i in range(99)]
    assert [mark.lower for mark in marks] == [*expected, 150_000]
