"""Listening time goes on from its last stamp, whatever happens to controllers and their clocks."""

import asyncio

import pytest

from controller.streams.registry import Registry
from tests.service.api import Api
from tests.simulation.cluster import Controller
from tests.simulation.quiet import QuietWorld

NOW = 1_700_000_000_000
TIMEOUT_MS = 120_000
"""More than twice as long as others are silent: their silence counts for half of it at most."""
DAY_S = 86_400
SLACK_MS = 2_000
"""Stamps are stored so often."""


def _api(world: QuietWorld, controller: Controller) -> Api:
    return Api(controller.url, transport=world.transport())


def _let_slow_hold(world: QuietWorld, controller: Controller) -> None:
    """Let a writer hold another one up for 30 s."""
    with _api(world, controller) as api:
        api.create(aggregation_timeout_ms=TIMEOUT_MS)
        api.note("slow", NOW + 10)
        api.note("quick", NOW + 50_000)
        world.sleep(30)


def _check_held(world: QuietWorld, controller: Controller, held_ms: int) -> None:
    """Check for how long it has held; nobody is charged for more."""
    with _api(world, controller) as api:
        (holder,) = api.get("watermark")["explanation"]["holders"]
    assert (holder["writer"], holder["state"]) == ("slow", "behind")
    assert held_ms - SLACK_MS <= holder["silent_for_ms"] <= held_ms + SLACK_MS


@pytest.mark.parametrize("world", [1, 2], indirect=True, ids=["alone", "two"])
def test_ten_minutes_without_a_controller_are_charged_to_nobody_and_restart_no_clock(
    world: QuietWorld,
) -> None:
    first = world.holder
    last = next((one for one in world.controllers if one is not first), first)
    _let_slow_hold(world, first)
    _check_held(world, first, 30_000)
    for one in world.controllers:
        one.stop()
        one.kill()
    world.sleep(600)
    world.start(last)
    _check_held(world, last, 30_000)
    last.node.clocks.skew_s += DAY_S
    last.node.pause_for(600)
    world.sleep(601)
    _check_held(world, last, 32_000)
    last.node.pause_for(3_600, suspends=True)
    world.sleep(3_601)
    _check_held(world, last, 33_000)
    world.sleep(20)
    _check_held(world, last, 52_000)
    last.stop()
    world.sleep(600)
    world.start(first)
    _check_held(world, first, 52_000)
    with _api(world, first) as api:
        for seconds in (55, 10):
            api.note("quick", NOW + 50_000)
            world.sleep(seconds)
        assert list(_expired(api)) == []
        world.sleep(3 * SLACK_MS / 1_000)
        assert _expired(api) == ["slow"]


def _expired(api: Api) -> list[str]:
    return [one["writer"] for one in api.get("writers", state="expired")["writers"]]


@pytest.mark.parametrize("world", [1, 2], indirect=True, ids=["alone", "two"])
def test_time_in_which_the_database_is_away_is_charged_to_nobody(world: QuietWorld) -> None:
    _let_slow_hold(world, world.holder)
    world.refuse_for(59)
    world.sleep(60)
    _check_held(world, world.holder, 30_000)
    world.sleep(20)
    _check_held(world, world.holder, 50_000)


@pytest.mark.parametrize("world", [2], indirect=True)
def test_what_a_take_over_takes_is_charged_to_nobody(
    world: QuietWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = world.holder
    (second,) = (one for one in world.controllers if one is not first)
    _let_slow_hold(world, first)
    _read_back_slowly(monkeypatch)
    world.kill(first)
    with _api(world, second) as api:
        world.until(lambda: api.client.get(f"{api.path}/watermark").is_success)
    _check_held(world, second, 30_000)
    world.sleep(5)
    _check_held(world, second, 35_000)


def _read_back_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass while streams are read back."""
    restore = Registry.restore_all

    async def slow(self: Registry) -> None:
        await asyncio.sleep(26)
        await restore(self)

    monkeypatch.setattr(Registry, "restore_all", slow)
