"""Beats and outages under virtual time: who has nothing new to say repeats its last time."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.service.api import MINUTE, NOON, Api
from tests.simulation.quiet import QuietWorld
from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.errors import InvalidTimeError, WriterFencedError
from writer_client import AsyncTimeReporter, AsyncWriter, EventsNotStoredError
from writer_client.strategies import MonotonousTimestamps, WithIdleness

TIMEOUT_MS = 1_500
SOON = timedelta(milliseconds=1)
SHORT = timedelta(milliseconds=50)
HELD = timedelta(hours=1)
"""How long events linger that nobody is to acknowledge."""


def _open(world: QuietWorld, **settings: Any) -> Api:
    """Make a stream, whose writers are dropped soon."""
    settings = {"aggregation_timeout_ms": TIMEOUT_MS} | settings
    shop = Api(world.controllers[0].url, "shop/orders", transport=world.transport())
    shop.create(**settings)
    return shop


def _start(
    world: QuietWorld, shop: Api, name: str, kind: Callable[..., Any] = AsyncWriter, **how: Any
) -> Any:
    """Start a writer."""
    writer = kind(shop.url, shop.name, name, **how)
    world.run(writer.open())
    return writer


def _until_expired(world: QuietWorld, shop: Api, writer: str) -> None:
    """Let a writer be silent for too long, while another one is ahead."""

    def is_expired() -> bool:
        shop.note("fast", NOON + MINUTE, 0)
        return shop.states()[writer] == "expired"

    world.until(is_expired)


def test_a_writer_whose_events_are_not_acknowledged_is_not_dropped_for_silence(
    world: QuietWorld,
) -> None:
    shop = _open(world, log="embedded")
    shop.note("silent", NOON, 0)
    slow = _start(world, shop, "slow", first_time=NOON, linger=HELD)
    world.run(slow.write("still on its way", key="k", event_time=NOON))
    _until_expired(world, shop, "silent")
    assert shop.states()["slow"] == "behind"
    assert shop.mark == (NOON, {"0": 0})
    world.run(slow.close())


@pytest.mark.parametrize(
    ("kind", "log"), [(AsyncWriter, "embedded"), (AsyncTimeReporter, "external")]
)
def test_who_is_idle_or_closed_is_dropped_unless_it_always_beats(
    world: QuietWorld, kind: Callable[..., Any], log: str
) -> None:
    shop = _open(world, log=log)
    idle = _start(world, shop, "idle", kind, first_time=NOON)
    beating = _start(world, shop, "beating", kind, first_time=NOON, beat="always")
    closed = _start(world, shop, "closed", kind, first_time=NOON, beat="always")
    left = _start(world, shop, "left", kind, first_time=NOON + MINUTE, beat="always")
    world.run(closed.close())
    world.run(left.leave())
    for name in ("idle", "closed"):
        _until_expired(world, shop, name)
    states = shop.states()
    assert (states["beating"], states["left"]) == ("behind", "left")
    for writer in (idle, beating):
        world.run(writer.close())


def test_a_quiet_writer_beats_unless_its_strategy_is_idle(world: QuietWorld) -> None:
    shop = _open(world, log="embedded")
    quiet = _start(world, shop, "quiet", strategy=MonotonousTimestamps())
    idle = _start(world, shop, "idle", strategy=WithIdleness(MonotonousTimestamps(), SOON))
    for writer in (quiet, idle):
        world.run(writer.write("1", key="k", event_time=NOON))
    world.until(lambda: shop.watermark == NOON)
    _until_expired(world, shop, "idle")
    assert shop.states()["quiet"] == "behind"
    world.run(idle.write("2", key="k", event_time=NOON + MINUTE))
    world.until(lambda: shop.states()["idle"] == "active")
    for writer in (quiet, idle):
        world.run(writer.close())


def test_a_beat_before_the_first_note_says_what_the_registration_returned(
    world: QuietWorld,
) -> None:
    shop = _open(world, log="embedded")
    shop.note("fast", NOON, 0)
    new = _start(world, shop, "new", beat="always")
    assert new.registered_time == NOON
    world.until(lambda: shop.states()["new"] == "active")
    assert {one["time"] for one in shop.writers()} == {NOON}
    with pytest.raises(InvalidTimeError):
        new.note_time(NOON - 1)
    new.note_time(NOON)
    world.run(new.close())


def test_a_beat_that_is_fenced_ends_the_writer(world: QuietWorld) -> None:
    shop = _open(world, log="embedded")
    writer = _start(world, shop, "api-1", first_time=NOON, beat="always")
    shop.says("api-1", "register")
    world.sleep(TIMEOUT_MS / 1_000)
    for call in (writer.flush, writer.close):
        with pytest.raises(WriterFencedError) as fenced:
            world.run(call())
        assert fenced.value.incarnation == 2


def test_a_reporter_raises_at_the_next_call_that_its_beat_was_fenced(world: QuietWorld) -> None:
    shop = _open(world)
    one = _start(world, shop, "api-1", AsyncTimeReporter, first_time=NOON, beat="always")
    shop.says("api-1", "register")
    world.sleep(TIMEOUT_MS / 1_000)
    for call in (one.open, lambda: one.note_time(NOON, {})):
        with pytest.raises(WriterFencedError):
            world.run(call())
    world.run(one.close())


def test_a_reporter_beats_when_it_is_told_to(world: QuietWorld) -> None:
    shop = _open(world)
    shop.note("silent", NOON, 0)
    slow = _start(world, shop, "slow", AsyncTimeReporter)
    world.run(slow.note_time(NOON, {0: 4}))

    async def beat() -> None:
        while True:
            await slow.beat()
            await asyncio.sleep(0.5)

    beating = world.begin(beat())
    _until_expired(world, shop, "silent")
    assert shop.states()["slow"] == "behind"
    beating.cancel()
    world.run(slow.close())


def test_a_reporter_goes_on_after_an_outage_with_what_it_was_shown_meanwhile(
    world: QuietWorld,
) -> None:
    shop = _open(world)
    how: dict[str, Any] = {"strategy": MonotonousTimestamps(), "retry_for": SHORT}
    reporter = _start(world, shop, "api-1", AsyncTimeReporter, **how)
    world.run(reporter.observe(NOON, {0: 5}))
    world.until(lambda: shop.watermark == NOON)
    (controller,) = world.controllers
    world.kill(controller)
    world.run(reporter.observe(NOON + MINUTE, {0: 6}))
    world.sleep(1)
    world.start(controller)
    world.until(lambda: shop.mark == (NOON + MINUTE, {"0": 6}))
    world.run(reporter.close())


def test_a_service_that_stays_away_stops_the_writer(world: QuietWorld) -> None:
    shop = _open(world, log="embedded")
    writer = _start(world, shop, "one", retry_for=SHORT)
    (controller,) = world.controllers
    world.kill(controller)
    for number in (1, 2):
        world.run(writer.write(str(number), key="k", event_time=number))
    writer.note_time(2)
    for call in (writer.flush, lambda: writer.write("3", key="k"), writer.close):
        with pytest.raises(EventsNotStoredError) as caught:
            world.run(call())
        assert (caught.value.count, caught.value.notes) == (2, 1)
        assert isinstance(caught.value.reason, ServiceUnreachableError)
    assert writer.unstored == 2
