"""What a day of real processes judges by: promises that are broken, and measurements that rise."""

import random
from itertools import islice

import pytest

from tests.soak_day.members import kills
from tests.soak_day.promises import BrokenPromiseError, Group, Ledger, Timeline, Windows
from tests.soak_day.trend import LIMITS, Change, Limit, change_of

_DAY_S = 86_400.0
_MEMORY = LIMITS["memory, MB"]


def test_a_killed_writer_may_leave_out_numbers_that_were_not_acknowledged() -> None:
    ledger = Ledger()
    ledger.acknowledge("k", range(3))
    for number in (0, 1, 2, 3, 9):
        ledger.read("k", number)
    assert ledger.unread() == {}
    ledger.acknowledge("k", range(9, 12))
    assert ledger.unread() == {"k": 10}


def test_an_acknowledged_event_that_is_passed_over_is_lost_whatever_is_heard_first() -> None:
    early, late = Ledger(), Ledger()
    for ledger in (early, late):
        ledger.read("k", 0)
    early.acknowledge("k", range(3))
    with pytest.raises(BrokenPromiseError, match="event 1 of key k was acknowledged"):
        early.read("k", 2)
    late.read("k", 2)
    with pytest.raises(BrokenPromiseError, match="event 1 of key k was acknowledged"):
        late.acknowledge("k", range(3))


@pytest.mark.parametrize("number", [1, 0])
def test_a_number_that_comes_again_is_doubled_or_out_of_order(number: int) -> None:
    ledger = Ledger()
    ledger.read("k", 1)
    with pytest.raises(BrokenPromiseError, match=f"event {number} of key k came again"):
        ledger.read("k", number)


def test_an_event_behind_a_mark_is_found_whichever_comes_first() -> None:
    timeline = Timeline("s")
    timeline.mark(1, 100, {0: 2})
    timeline.event(0, 0, 50)
    timeline.event(0, 1, 99)
    timeline.event(0, 2, 100)
    with pytest.raises(BrokenPromiseError, match="0:3 of s, at 99, is behind the mark at 100"):
        timeline.event(0, 3, 99)
    with pytest.raises(BrokenPromiseError, match="0:2 of s, at 100, is behind the mark at 101"):
        timeline.mark(2, 101, {0: 2})


def test_an_event_is_held_against_the_newest_mark_before_it() -> None:
    timeline = Timeline("s")
    timeline.mark(1, 100, {0: 1})
    timeline.mark(2, 200, {0: 2})
    assert timeline.complete_below() == 0
    timeline.event(0, 0, 7)
    assert timeline.complete_below() == 100
    with pytest.raises(BrokenPromiseError, match="is behind the mark at 100"):
        timeline.event(0, 1, 99)
    timeline.mark(3, 300, {0: 2})
    with pytest.raises(BrokenPromiseError, match="at 250, is behind the mark at 300"):
        timeline.event(0, 2, 250)


def test_marks_and_watermarks_do_not_go_back() -> None:
    timeline = Timeline("s")
    timeline.mark(1, 100, {0: 1})
    for revision, lower, cut in ((2, 100, {0: 1}), (2, 101, {0: 0}), (1, 101, {0: 1})):
        with pytest.raises(BrokenPromiseError, match="goes back"):
            timeline.mark(revision, lower, cut)
    timeline.told(100)
    for watermark in (99, None):
        with pytest.raises(BrokenPromiseError, match=f"went back from 100 to {watermark}"):
            timeline.told(watermark)


def test_results_are_the_truth_once_in_order_and_may_be_repeated() -> None:
    windows = Windows("q", 10)
    for time in (1, 2, 11, 35):
        windows.event(time)
    windows.result(0, [(10, 1), (0, 2)])
    windows.result(0, [(0, 2), (10, 1)])
    windows.check(20)
    assert windows.checked == 2
    with pytest.raises(BrokenPromiseError, match="batch 0 of q put out"):
        windows.result(0, [])


@pytest.mark.parametrize("rows", [[(0, 1)], [(10, 1)], [(0, 2), (0, 2)]])
def test_a_result_that_is_wrong_missing_or_doubled_is_found(
    rows: list[tuple[int, int]],
) -> None:
    windows = Windows("q", 10)
    for time in (1, 2, 11):
        windows.event(time)
    windows.result(0, rows)
    with pytest.raises(BrokenPromiseError, match="q put out window"):
        windows.check(20)


def test_readers_repeat_but_skip_nothing_and_are_not_behind_the_window_of_their_group() -> None:
    group = Group()
    group.returned(1.0, 0, 0, [5, 6])
    group.window(1.5, 7)
    group.returned(2.0, 0, 1, [6, 7])
    group.settle(2.0)
    group.returned(3.0, 0, 4, [9])
    with pytest.raises(BrokenPromiseError, match="skipped segment 0 from 3 to 4"):
        group.settle(3.0)
    group.returned(4.0, 0, 3, [6])
    with pytest.raises(BrokenPromiseError, match="at 6 first came to a reader after"):
        group.settle(4.0)
    with pytest.raises(BrokenPromiseError, match="went back from 7 to 6"):
        group.window(5.0, 6)


def _samples(slope: float, *, noise: float) -> list[tuple[float, float]]:
    """Sample 150 MB each minute, that rises by a slope in a day."""
    chance = random.Random(1)
    times = range(60, int(_DAY_S), 60)
    return [(at, 150 + slope * at / _DAY_S + chance.gauss(0, noise)) for at in times]


def test_a_leak_rises_below_noise_and_noise_does_not() -> None:
    assert change_of(_samples(50, noise=10), _DAY_S, _MEMORY).rises  # type: ignore[union-attr]
    assert not change_of(_samples(0, noise=50), _DAY_S, _MEMORY).rises  # type: ignore[union-attr]


def test_a_rise_below_its_share_or_its_floor_or_at_the_end_alone_is_none() -> None:
    samples = _samples(50, noise=0)
    for limit in (Limit(0.50, 0), Limit(0, 50)):
        assert not change_of(samples, _DAY_S, limit).rises  # type: ignore[union-attr]
    peak = [(at, 100.0 if at < 0.95 * _DAY_S else 900.0) for at, _ in samples]
    assert change_of(peak, _DAY_S, _MEMORY) == Change(100, 100, rises=False)
    # Nothing is said of a short run, nor of one that was away.
    assert change_of(samples[:59], 3_599, _MEMORY) is None
    assert change_of(samples[:1_300], _DAY_S, _MEMORY) is None


def test_a_seed_draws_the_same_kills_each_kind_once_in_a_turn() -> None:
    first, second = (list(islice(kills(7, 60), 10)) for _ in range(2))
    assert first == second
    assert len({one.kind for one in first[:5]}) == 5
