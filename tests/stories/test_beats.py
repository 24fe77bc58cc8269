"""Beats: who has nothing new to say repeats its last time, and keeps its place."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.shop import MINUTE, NOON, Shop
from tests.simulation.quiet import QuietWorld
from tidegauge.errors import InvalidTimeError, WriterFencedError
from writer_client import AsyncTimeReporter, AsyncWriter, Writer

TIMEOUT_MS = 1_500
HELD = timedelta(hours=1)
"""How long events linger that nobody is to acknowledge."""


def _open(world: QuietWorld, **settings: object) -> Shop:
    """Make a stream, whose writers are dropped soon."""
    settings = {"aggregation_timeout_ms": TIMEOUT_MS} | settings
    return Shop(world.controllers[0].url, transport=world.transport(), **settings)


def _until_expired(world: QuietWorld, shop: Shop, writer: str) -> None:
    """Let a writer be silent for too long, while another one is ahead."""

    def is_expired() -> bool:
        shop.notes("fast", NOON + MINUTE, 0)
        return shop.states()[writer] == "expired"

    world.until(is_expired)


def test_a_writer_whose_events_are_not_acknowledged_is_not_dropped_for_silence(
    world: QuietWorld,
) -> None:
    shop = _open(world, log="embedded")
    shop.notes("silent", NOON, 0)
    slow = AsyncWriter(
        world.controllers[0].url, shop.name, "slow", first_time=NOON, linger=HELD
    )
    world.run(slow.open())
    world.run(slow.write("still on its way", key="k", event_time=NOON))
    _until_expired(world, shop, "silent")
    assert shop.states()["slow"] == "behind"
    assert shop.mark == (NOON, {"0": 0})
    world.run(slow.close())


@pytest.mark.parametrize(
    ("client", "log"), [(AsyncWriter, "embedded"), (AsyncTimeReporter, "external")]
)
def test_who_is_idle_or_closed_is_dropped_unless_it_always_beats(
    world: QuietWorld, client: Callable[..., AsyncWriter], log: str
) -> None:
    shop, url = _open(world, log=log), world.controllers[0].url
    idle = client(url, shop.name, "idle", first_time=NOON)
    beating, closed = (
        client(url, shop.name, name, first_time=NOON, beat="always")
        for name in ("beating", "closed")
    )
    left = client(url, shop.name, "left", first_time=NOON + MINUTE, beat="always")
    for one in (idle, beating, closed, left):
        world.run(one.open())
    world.run(closed.close())
    world.run(left.leave())
    _until_expired(world, shop, "idle")
    _until_expired(world, shop, "closed")
    assert shop.states()["beating"] == "behind"
    assert shop.states()["left"] == "left"
    for one in (idle, beating):
        world.run(one.close())


def test_a_beat_before_the_first_note_says_what_the_registration_told(
    world: QuietWorld,
) -> None:
    shop = _open(world, log="embedded")
    shop.notes("fast", NOON, 0)
    new = AsyncWriter(world.controllers[0].url, shop.name, "new", beat="always")
    world.run(new.open())
    assert new.told_time == NOON
    world.until(lambda: shop.states()["new"] == "active")
    assert {one["time"] for one in shop.writers()} == {NOON}
    with pytest.raises(InvalidTimeError):
        new.note_time(NOON - 1)
    new.note_time(NOON)
    world.run(new.close())


def test_a_beat_that_is_fenced_ends_the_writer(world: QuietWorld) -> None:
    shop = _open(world, log="embedded")
    writer = AsyncWriter(
        world.controllers[0].url, shop.name, "api-1", first_time=NOON, beat="always"
    )
    world.run(writer.open())
    shop.says("api-1", "register")
    world.sleep(TIMEOUT_MS / 1_000)
    for call in (writer.flush, writer.close):
        with pytest.raises(WriterFencedError) as fenced:
            world.run(call())
        assert fenced.value.incarnation == 2


def test_an_outage_does_not_end_a_writer_that_beats(
    server: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    short = timedelta(milliseconds=50)
    with (
        Shop(server.url, log="embedded", aggregation_timeout_ms=600) as shop,
        caplog.at_level(logging.WARNING, "tidegauge.client"),
        Writer(
            server.url, shop.name, "one", first_time=NOON, beat="always", retry_for=short
        ) as writer,
    ):
        writer.open()
        server.kill()
        wait_until(lambda: "retrying" in caplog.text)
        server.start()
        wait_until(lambda: "answers again" in caplog.text)
        writer.note_time(NOON + MINUTE)
        writer.flush()


def test_a_reporter_beats_when_it_is_told_to(world: QuietWorld) -> None:
    shop = _open(world)
    shop.notes("silent", NOON, 0)
    slow = AsyncTimeReporter(world.controllers[0].url, shop.name, "slow")
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


def test_a_reporter_tells_that_its_beat_was_fenced_at_the_next_call(world: QuietWorld) -> None:
    shop = _open(world)
    one = AsyncTimeReporter(
        world.controllers[0].url, shop.name, "api-1", first_time=NOON, beat="always"
    )
    world.run(one.open())
    shop.says("api-1", "register")
    world.sleep(TIMEOUT_MS / 1_000)
    for call in (one.open, lambda: one.note_time(NOON, {})):
        with pytest.raises(WriterFencedError):
            world.run(call())
    world.run(one.close())
