"""The scaling policy: when the load of a stream splits its segments, and when it merges them.

A busy segment is split at the middle of its keys above twice the target, neighbours are merged
when each is below half of it: what one of these made is never within reach of the other. Times
are listening time of the stream, ms, so that an outage does not appear as no load.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tidegauge.event_time import describe_span
from tidegauge.scaling import MOST_SEGMENTS, equal_parts
from tidegauge.topology import KeyRange, Topology

Unit: TypeAlias = Literal["events", "bytes"]

_SAMPLES_PER_WINDOW = 4
"""Each is stored, so few; a rate is measured over a window and a quarter at most."""
_COOLDOWNS_WHILE_HOT = 10
_HOT_SHARE = 0.9
"""Of what both parts of a split take: keys that are no hot ones spread further than that."""
_ACTIONS_KEPT = 10
_FULL = f"nothing: a stream can have {MOST_SEGMENTS} segments in all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How the number of segments follows the load.

    Attributes
    ----------
    unit, target
        How many events or bytes a second a segment is to take.
    window_ms
        What rates are measured over.
    cooldown_ms
        How long a segment that a scaling made is left alone.
    min_segments, max_segments
        How few and how many may grow.
    """

    unit: Unit
    target: int
    window_ms: int
    cooldown_ms: int
    min_segments: int
    max_segments: int


class Sample(NamedTuple):
    """What the growing segments had taken by some time."""

    at_ms: int
    amounts: dict[int, int]


class Action(NamedTuple):
    """A scaling, and why; the time is wall clock, for people."""

    wall_ms: int
    sealed: list[int]
    added: list[int]
    reason: str


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy knows of a stream; it is stored with it.

    Attributes
    ----------
    unit
        Of the samples.
    samples
        Oldest first; the first is a window older than the last, once there is one.
    began_ms
        When scalings made the growing segments; those that it began with are left out.
    hot_until_ms
        Growing segments that are not split before then: one key has most of their load.
    actions
        The newest scalings, oldest first.
    """

    unit: Unit = "events"
    samples: tuple[Sample, ...] = ()
    began_ms: dict[int, int] = {}
    hot_until_ms: dict[int, int] = {}
    actions: tuple[Action, ...] = ()


class Step(NamedTuple):
    """A scaling that is due, and why."""

    seal: list[int]
    ranges: list[KeyRange]
    reason: str


@dataclass(slots=True)
class Plan:
    """What is due, and what busy or idle segments wait for."""

    steps: list[Step] = field(default_factory=list)
    waits: dict[int, str] = field(default_factory=dict)


def is_due(load: Load, policy: Policy, now_ms: int) -> bool:
    """Return whether it is time for the next sample."""
    if not load.samples or load.unit != policy.unit:
        return True
    age_ms = now_ms - load.samples[-1].at_ms
    return not 0 <= age_ms < policy.window_ms / _SAMPLES_PER_WINDOW


def seen(
    load: Load, policy: Policy, topology: Topology, amounts: Mapping[int, int], now_ms: int
) -> Load:
    """Add a sample: how much every growing segment has taken since the stream began."""
    former = load.samples if load.unit == policy.unit else ()
    # A crash may have lost some listening time: what was seen then was seen just now at the latest.
    ahead_ms = max(0, former[-1].at_ms - now_ms) if former else 0
    growing = topology.unsealed
    samples = [Sample(sample.at_ms - ahead_ms, sample.amounts) for sample in former]
    samples.append(Sample(now_ms, {number: amounts.get(number, 0) for number in growing}))
    while len(samples) > 1 and samples[1].at_ms <= now_ms - policy.window_ms:
        del samples[0]
    began_ms = {
        number: load.began_ms.get(number, now_ms + ahead_ms) - ahead_ms
        for number in growing
        if topology[number].predecessors
    }
    hot = {
        number: until_ms - ahead_ms
        for number, until_ms in load.hot_until_ms.items()
        if number in began_ms
    }
    known = Load(
        unit=policy.unit,
        samples=tuple(samples),
        began_ms=began_ms,
        hot_until_ms=hot,
        actions=load.actions,
    )
    hot |= _hot(known, policy, topology)
    still = {number: until_ms for number, until_ms in hot.items() if until_ms > now_ms}
    return msgspec.structs.replace(known, hot_until_ms=still)


def scaled(load: Load, action: Action, now_ms: int) -> Load:
    """Record a scaling, by the policy or by hand: what it made cools down."""
    *former, last = load.samples or (Sample(now_ms, {}),)
    if last.at_ms == now_ms:  # they are measured from this sample on
        last = Sample(now_ms, last.amounts | dict.fromkeys(action.added, 0))
    return msgspec.structs.replace(
        load,
        samples=(*former, last),
        began_ms=load.began_ms | dict.fromkeys(action.added, now_ms),
        actions=(*load.actions, action)[-_ACTIONS_KEPT:],
    )


def rates(load: Load, policy: Policy) -> dict[int, float]:
    """Return how much each growing segment takes a second; of those sampled for a whole window."""
    if not load.samples or load.unit != policy.unit:
        return {}
    first, last = load.samples[0], load.samples[-1]
    span_ms = last.at_ms - first.at_ms
    if span_ms < policy.window_ms:
        return {}
    return {
        number: (amount - first.amounts[number]) * 1_000 / span_ms
        for number, amount in last.amounts.items()
        if number in first.amounts
    }


def plan(load: Load, policy: Policy, topology: Topology) -> Plan:
    """Decide what is due as of the last sample: splits, the busiest first, and merges."""
    made = Plan()
    if load.samples:
        per_s, window = rates(load, policy), describe_span(policy.window_ms)
        unseen = [number for number in topology.unsealed if number not in per_s]
        made.waits |= dict.fromkeys(unseen, f"measured for {window} first")
        _plan_splits(made, load, policy, topology)
        _plan_merges(made, load, policy, topology)
    return made


def _plan_splits(made: Plan, load: Load, policy: Policy, topology: Topology) -> None:
    per_s, now_ms = rates(load, policy), load.samples[-1].at_ms
    growing, in_all = len(topology.unsealed), len(topology.segments)
    for number in sorted(per_s, key=lambda number: -per_s[number]):
        owned = topology[number].key_range
        if per_s[number] <= 2 * policy.target or owned is None:
            return
        cooldown_ms = _cooldown_ms(load, policy, number)
        lower, upper = equal_parts(owned, 2)
        if cooldown_ms > 0:
            made.waits[number] = f"split after its cooldown, in {describe_span(cooldown_ms)}"
        elif number in load.hot_until_ms:
            left = describe_span(load.hot_until_ms[number] - now_ms)
            made.waits[number] = f"hot key: a split did not spread the load; again in {left}"
        elif growing >= policy.max_segments:
            made.waits[number] = f"split once fewer than {policy.max_segments} segments grow"
        elif in_all + 2 > MOST_SEGMENTS:
            made.waits[number] = _FULL
        elif not owned.low < lower.high < owned.high:
            made.waits[number] = "nothing: its range of keys has no middle"
        else:
            growing, in_all = growing + 1, in_all + 2
            took = _show(per_s[number], policy)
            reason = f"segment {number} took {took}, above twice the target of {policy.target}"
            made.steps.append(Step([number], [lower, upper], reason))


def _plan_merges(made: Plan, load: Load, policy: Policy, topology: Topology) -> None:
    per_s = rates(load, policy)
    added = sum(len(step.ranges) - len(step.seal) for step in made.steps)
    growing = len(topology.unsealed) + added
    in_all = len(topology.segments) + 2 * added
    merged: set[int] = set()
    in_order = sorted(topology.unsealed, key=lambda one: topology[one].key_range or (0, 0))
    for low, high in pairwise(in_order):
        owned = topology[low].key_range, topology[high].key_range
        idle = all(
            per_s.get(number, policy.target) < policy.target / 2 for number in (low, high)
        )
        if not idle or low in merged or owned[0] is None or owned[1] is None:
            continue
        cooldown_ms = max(_cooldown_ms(load, policy, number) for number in (low, high))
        if cooldown_ms > 0:
            wait = f"merged after the cooldown, in {describe_span(cooldown_ms)}"
            made.waits |= dict.fromkeys((low, high), wait)
        elif growing <= policy.min_segments:
            made.waits |= dict.fromkeys((low, high), f"nothing: {growing} are the fewest")
        elif in_all >= MOST_SEGMENTS:
            made.waits |= dict.fromkeys((low, high), _FULL)
        else:
            growing, in_all = growing - 1, in_all + 1
            merged.add(high)
            took = " and ".join(_show(per_s[number], policy) for number in (low, high))
            reason = f"segments {low} and {high} took {took}, below half the target of {policy.target}"
            made.steps.append(
                Step([low, high], [KeyRange(owned[0].low, owned[1].high)], reason)
            )


def _hot(load: Load, policy: Policy, topology: Topology) -> dict[int, int]:
    """Find parts of splits that took the load along: splitting them again would do no more."""
    per_s = rates(load, policy)
    hot = {}
    for number, began_ms in load.began_ms.items():
        parts = topology.successors[topology[number].predecessors[0]]
        if len(parts) < 2 or any(part not in per_s for part in parts):
            continue
        is_busy = per_s[number] > 2 * policy.target
        if is_busy and per_s[number] >= _HOT_SHARE * sum(per_s[part] for part in parts):
            hot[number] = began_ms + _COOLDOWNS_WHILE_HOT * policy.cooldown_ms
    return hot


def _cooldown_ms(load: Load, policy: Policy, number: int) -> int:
    """Return how long a segment is still left alone; 0 or less if it is not."""
    began_ms = load.began_ms.get(number)
    return 0 if began_ms is None else began_ms + policy.cooldown_ms - load.samples[-1].at_ms


def _show(per_s: float, policy: Policy) -> str:
    return f"{per_s:.1f} {policy.unit}/s"
