"""Who may hold the watermark, and how long, over the loss of the controller that counts it.

It is killed and started again, or another one takes over. Clocks are read before and after: nobody
gets a fresh start by it, and nobody loses one. A gap between reports counts at most half of a
setting.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.service.shop import MINUTE, NOON, Shop
from tests.simulation.quiet import QuietWorld

pytestmark = pytest.mark.parametrize("world", [1, 2], indirect=True, ids=["alone", "two"])

SHOWN_MS = 300
"""A clock has gone so far, at least, when a controller is lost."""


def _open(world: QuietWorld, **settings: Any) -> Shop:
    """Make a stream."""
    return Shop(world.holder.url, transport=world.transport(), **settings)


def _lose(world: QuietWorld, shop: Shop) -> None:
    """Kill whoever counts a stream, and wait until somebody else does."""
    lost = world.holder
    world.kill(lost)
    if len(world.controllers) == 1:
        world.start(lost)
    else:
        shop.client.base_url = world.holder.url
        world.start(lost)


class Steady:
    """A writer that goes on, a minute of event time with every word."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._times = count(NOON + MINUTE, MINUTE)
        self.time = NOON

    def speak(self, *others: dict[str, object]) -> None:
        """Note the next time, at one moment with what others report."""
        self.time = next(self._times)
        report = {"writer": "steady", "time": self.time, "position": {"0": 1}}
        self._shop.many([report, *others])


def _of(shop: Shop, writer: str) -> dict[str, Any]:
    return next(one for one in shop.writers() if one["writer"] == writer)


def _run(
    world: QuietWorld, shop: Shop, writer: str, clock: str, speak: Callable[[], object]
) -> int:
    """Speak until a clock has gone far; tells what a look found at least that is stored."""
    shown_ms: int | None = None

    def is_far() -> bool:
        nonlocal shown_ms
        shown_ms = _of(shop, writer)[clock]
        speak()
        return shown_ms is not None and shown_ms >= SHOWN_MS

    world.until(is_far)
    assert shown_ms is not None
    return shown_ms


def _speak_until(
    world: QuietWorld, speak: Callable[[], object], condition: Callable[[], bool]
) -> None:
    def spoken() -> bool:
        speak()
        return condition()

    world.until(spoken)


def test_all_that_vanish_together_go_together_after_one_timeout(world: QuietWorld) -> None:
    shop = _open(world, aggregation_timeout_ms=2_000, hold_limit_ms=None, min_writers=21)
    steady, pods = Steady(shop), [f"pod-{number:02}" for number in range(20)]
    steady.speak()
    shop.many(
        {"writer": pod, "time": NOON + 10 * number, "position": {"0": 1}}
        for number, pod in enumerate(pods)
    )
    shown_ms = _run(world, shop, "pod-00", "silent_for_ms", steady.speak)
    _lose(world, shop)
    found = [one for one in shop.writers() if one["writer"] in pods]
    assert [one["state"] for one in found] == ["behind"] + 19 * ["active"]
    assert {one["clock"] for one in found} == {"silence"}
    assert min(one["silent_for_ms"] for one in found) >= shown_ms

    def all_went() -> bool:
        states = shop.states()
        (went,) = {states[pod] == "expired" for pod in pods}
        return went

    _speak_until(world, steady.speak, all_went)
    assert shop.watermark == steady.time


def _report(shop: Shop, **times: int) -> None:
    """Have writers report at one moment."""
    shop.many(
        {"writer": name, "time": time, "position": {"0": 1}} for name, time in times.items()
    )


def test_who_beats_is_waited_for_beyond_the_timeout_up_to_the_limit(world: QuietWorld) -> None:
    shop = _open(world, aggregation_timeout_ms=250, hold_limit_ms=2_000)
    steady, beat = Steady(shop), {"writer": "slow", "time": NOON, "position": {"0": 1}}
    _report(shop, steady=NOON, slow=NOON)

    def speak() -> None:
        steady.speak(beat)

    shown_ms = _run(world, shop, "slow", "standing_for_ms", speak)
    _lose(world, shop)
    slow = _of(shop, "slow")
    assert slow["state"] == "behind"
    assert slow["standing_for_ms"] >= shown_ms > 250 > slow["silent_for_ms"]
    _speak_until(world, speak, lambda: shop.states()["slow"] == "expired")
    assert shop.watermark == steady.time


def test_a_process_that_registers_and_crashes_holds_the_others_once(world: QuietWorld) -> None:
    shop = _open(world, aggregation_timeout_ms=2_000, hold_limit_ms=None)
    steady = Steady(shop)
    steady.speak()
    assert shop.says("looping", "register")["state"] == "joining"

    def speak() -> None:
        shop.says("looping", "register")
        steady.speak()

    shown_ms = _run(world, shop, "looping", "silent_for_ms", speak)
    _lose(world, shop)
    registered = shop.says("looping", "register")
    assert (registered["time"], registered["state"]) == (NOON + MINUTE, "joining")
    looping = _of(shop, "looping")
    assert (looping["state"], looping["grace"]) == ("joining", False)
    assert looping["silent_for_ms"] >= shown_ms
    _speak_until(world, speak, lambda: shop.states()["looping"] == "expired")
    _lose(world, shop)
    registered = shop.says("looping", "register")
    assert (registered["time"], registered["state"]) == (None, "expired")
    steady.speak()
    assert shop.watermark == steady.time
    above = steady.time + MINUTE
    number = registered["incarnation"]
    assert shop.notes("looping", above, 1, incarnation=number)["state"] == "active"
