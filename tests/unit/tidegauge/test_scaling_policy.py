"""The scaling policy, on a clock that is moved by hand and a log that only counts."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tidegauge.scaling import continuing
from tidegauge.scaling_policy import (
    Action,
    Load,
    Plan,
    Policy,
    is_due,
    plan,
    rates,
    scaled,
    seen,
)
from tidegauge.topology import KeyRange, Segment, Topology

POLICY = Policy(
    unit="events",
    target=100,
    window_ms=120_000,
    cooldown_ms=600_000,
    min_segments=1,
    max_segments=64,
)
LOOK_MS, WINDOW_MS, COOLDOWN_MS = 30_000, 120_000, 600_000
EVENLY = {at / 100: 0.01 for at in range(100)}
"""Keys by their hash, and the share of the load that each has."""


class Simulation:
    """A stream whose keys take a load; every look is taken as the service takes it."""

    def __init__(self, segments: int = 1, policy: Policy = POLICY) -> None:
        self.policy = policy
        self.topology = Topology.of_equal_ranges(segments)
        self.tails = dict.fromkeys(self.topology.in_order, 0.0)
        self.load = Load()
        self.now_ms = 0
        self.done: list[tuple[int, list[int]]] = []
        """When what was sealed."""
        self.look()

    def run(self, ms: int, per_s: float, keys: Mapping[float, float] = EVENLY) -> None:
        """Let time pass under a load, with a look every quarter of a window."""
        for _ in range(0, ms, LOOK_MS):
            for key, share in keys.items():
                self.tails[self.topology.route(key)] += per_s * share * LOOK_MS / 1_000
            self.now_ms += LOOK_MS
            self.look()

    def look(self) -> None:
        amounts = {number: round(amount) for number, amount in self.tails.items()}
        self.load = seen(self.load, self.policy, self.topology, amounts, self.now_ms)
        for step in self.plan().steps:
            self.scale(step.seal, step.ranges, step.reason)

    def scale(self, seal: list[int], ranges: list[KeyRange], reason: str) -> None:
        added = continuing(self.topology, seal, ranges)
        lengths = {number: round(self.tails[number]) for number in seal}
        self.topology = self.topology.scaled(lengths, added)
        numbers = [one.number for one in added]
        self.tails |= dict.fromkeys(numbers, 0.0)
        self.load = scaled(self.load, Action(0, seal, numbers, reason), self.now_ms)
        self.done.append((self.now_ms, seal))

    def plan(self) -> Plan:
        return plan(self.load, self.policy, self.topology)

    @property
    def growing(self) -> list[tuple[float, float]]:
        ranges = (self.topology[number].key_range for number in self.topology.unsealed)
        return sorted((one.low, one.high) for one in ranges if one)


def test_a_segment_is_split_at_its_middle_once_a_window_was_above_twice_the_target() -> None:
    stream = Simulation()
    stream.run(WINDOW_MS - LOOK_MS, per_s=201)
    assert (stream.growing, stream.plan().waits) == ([(0, 1)], {0: "measured for 2m first"})
    stream.run(LOOK_MS, per_s=201)
    assert stream.growing == [(0, 0.5), (0.5, 1)]
    assert stream.load.actions == (
        Action(0, [0], [1, 2], "segment 0 took 201.0 events/s, above twice the target of 100"),
    )


def test_a_segment_that_a_scaling_made_is_left_alone_for_its_cooldown() -> None:
    stream = Simulation()
    stream.run(WINDOW_MS, per_s=1_000)
    began_ms = stream.now_ms
    stream.run(COOLDOWN_MS - LOOK_MS, per_s=1_000)
    assert stream.done == [(WINDOW_MS, [0])]
    assert stream.plan().waits == {
        1: "split after its cooldown, in 30s",
        2: "split after its cooldown, in 30s",
    }
    stream.run(LOOK_MS, per_s=1_000)
    assert stream.done[1:] == [(began_ms + COOLDOWN_MS, [1]), (began_ms + COOLDOWN_MS, [2])]


@pytest.mark.parametrize("per_s", [0, 70, 199, 401, 1_000, 3_333, 20_000])
def test_a_steady_load_comes_to_rest(per_s: int) -> None:
    stream = Simulation(3)
    stream.run(10 * COOLDOWN_MS, per_s)
    rested = list(stream.done)
    stream.run(30 * COOLDOWN_MS, per_s)
    assert stream.done == rested


def test_a_split_whose_load_stays_in_one_part_is_not_repeated_for_ten_cooldowns() -> None:
    one_key = {0.3: 0.95, 0.7: 0.05}
    stream = Simulation()
    stream.run(WINDOW_MS, per_s=1_000, keys=one_key)
    began_ms = stream.now_ms
    stream.run(WINDOW_MS, per_s=1_000, keys=one_key)
    assert stream.load.hot_until_ms == {1: began_ms + 10 * COOLDOWN_MS}
    stream.run(COOLDOWN_MS, per_s=1_000, keys=one_key)
    assert stream.plan().waits == {
        1: "hot key: a split did not spread the load; again in 1h 28m"
    }
    stream.run(10 * COOLDOWN_MS - WINDOW_MS - COOLDOWN_MS, per_s=1_000, keys=one_key)
    assert stream.done == [(WINDOW_MS, [0]), (began_ms + 10 * COOLDOWN_MS, [1])]
    stream.run(WINDOW_MS, per_s=1_000, keys=one_key)
    assert list(stream.load.hot_until_ms) == [4]


def test_no_more_grow_than_may_and_the_busiest_are_split_first() -> None:
    stream = Simulation(4, replace(POLICY, max_segments=5))
    stream.run(WINDOW_MS, per_s=1_000, keys={0.1: 0.25, 0.3: 0.5, 0.6: 0.25})
    assert [sealed for _, sealed in stream.done] == [[1]]
    assert stream.plan().waits[0] == "split once fewer than 5 segments grow"


def test_no_fewer_grow_than_the_least() -> None:
    stream = Simulation(4, replace(POLICY, min_segments=3))
    stream.run(3 * COOLDOWN_MS, per_s=0)
    assert stream.growing == [(0, 0.5), (0.5, 0.75), (0.75, 1)]
    assert set(stream.plan().waits.values()) == {"nothing: 3 are the fewest"}


def test_a_range_that_has_no_middle_any_more_is_not_split() -> None:
    stream = Simulation()
    narrow = KeyRange(0.5, 0.5000000000000001)
    stream.scale([0], [KeyRange(0, 0.5), narrow, KeyRange(narrow.high, 1)], "by hand")
    stream.look()
    stream.run(11 * COOLDOWN_MS, per_s=1_000, keys={0.5: 1.0})
    assert [sealed for _, sealed in stream.done] == [[0]]
    assert stream.plan().waits[2] == "nothing: its range of keys has no middle"


def test_a_stream_that_has_had_all_segments_that_it_can_have_is_scaled_no_more() -> None:
    sealed = [Segment(number, KeyRange(0, 1), (), 0) for number in range(9_998)]
    halves = [Segment(9_998, KeyRange(0, 0.5)), Segment(9_999, KeyRange(0.5, 1))]
    stream = Simulation()
    stream.topology = Topology([*sealed, *halves])
    stream.tails = dict.fromkeys((9_998, 9_999), 0.0)
    stream.look()
    for per_s in (1_000, 0):
        stream.run(2 * WINDOW_MS, per_s)
        assert stream.plan().waits == dict.fromkeys(
            (9_998, 9_999), "nothing: a stream can have 10000 segments in all"
        )
    assert stream.done == []


def test_a_clock_that_a_crash_set_back_charges_nobody() -> None:
    stream = Simulation(2)
    stream.run(COOLDOWN_MS, per_s=150)
    stream.scale([0], [KeyRange(0, 0.25), KeyRange(0.25, 0.5)], "by hand")
    stream.run(WINDOW_MS, per_s=150)
    left = stream.plan().waits[2]
    stream.now_ms -= 60_000
    assert is_due(stream.load, stream.policy, stream.now_ms)
    stream.look()
    assert stream.plan().waits[2] == left == "merged after the cooldown, in 8m"
    assert rates(stream.load, stream.policy)[1] == 75


def test_no_more_is_kept_than_a_window_needs() -> None:
    stream = Simulation()
    stream.run(20 * COOLDOWN_MS, per_s=150)
    ages_ms = [stream.now_ms - sample.at_ms for sample in stream.load.samples]
    assert ages_ms == [120_000, 90_000, 60_000, 30_000, 0]
    assert not is_due(stream.load, POLICY, stream.now_ms + LOOK_MS - 1)
    assert is_due(stream.load, POLICY, stream.now_ms + LOOK_MS)
