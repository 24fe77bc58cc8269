"""Which times become marks, where there are more of them than one pass may emit."""

from hypothesis import given
from hypothesis import strategies as st

from tests.property.model import lowers
from tidegauge.thinning import thinned


@given(
    gaps=st.lists(st.sampled_from([0, 1, 1, 2, 3, 10]), max_size=40),
    repeats=st.sampled_from([1, 1, 30, 70]),
    beyond=st.integers(0, 4),
    first=st.none() | st.integers(1, 4),
    resolution_ms=st.integers(0, 4),
)
def test_times_are_thinned_as_the_model_thins_them(
    gaps: list[int], repeats: int, beyond: int, first: int | None, resolution_ms: int
) -> None:
    times = [0]
    for gap in gaps * repeats:
        times.append(times[-1] + gap)
    watermark = None if first is None else -first
    target = times[-1] + beyond
    below = [time for time in dict.fromkeys(times) if time < target]
    expected = lowers(below, target, watermark, resolution_ms)
    assert thinned(times, target, watermark, resolution_ms) == expected


def test_999_times_below_the_target_are_all_kept() -> None:
    assert thinned(range(1, 1_000), 1_000, 0, 0) == list(range(1, 1_001))


def test_of_1000_times_below_the_target_the_last_is_dropped() -> None:
    assert thinned(range(1, 1_001), 1_001, 0, 0) == [*range(1, 1_000), 1_001]


def test_of_1998_times_below_the_target_every_other_is_kept() -> None:
    assert thinned(range(1_998), 1_998, None, 0) == [*range(0, 1_998, 2), 1_998]


def test_a_pass_emits_at_most_1000_marks() -> None:
    assert len(thinned(range(100_000), 100_000, None, 0)) == 1_000
