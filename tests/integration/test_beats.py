"""Beats over a real server: who has nothing new to say repeats its last time, and keeps its place."""

import logging
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.integration.shop import MINUTE, NOON, Open, Shop
from tests.patience import wait_until
from tests.server import ServerProcess
from tidegauge.errors import InvalidTimeError, WriterFencedError
from writer_client import TimeReporter, Writer

TIMEOUT_MS = 1_500
HELD = timedelta(hours=1)
"""How long events linger that nobody is to acknowledge."""


def _is_expired(shop: Shop, writer: str) -> Callable[[], bool]:
    return lambda: shop.states()[writer] == "expired"


def test_a_writer_whose_events_are_not_acknowledged_is_not_dropped_for_silence(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded", aggregation_timeout_ms=TIMEOUT_MS)
    shop.notes("silent", NOON, 0)
    with Writer(shared_server.url, shop.name, "slow", first_time=NOON, linger=HELD) as slow:
        slow.write("still on its way", key="k", event_time=NOON)
        shop.notes("fast", NOON + MINUTE, 0)
        shop.until(_is_expired(shop, "silent"), beating="fast")
        assert shop.states()["slow"] == "behind"
        assert shop.mark == (NOON, {"0": 0})


def test_an_idle_writer_is_dropped_unless_it_always_beats(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded", aggregation_timeout_ms=TIMEOUT_MS)
    url, stream = shared_server.url, shop.name
    with (
        Writer(url, stream, "idle", first_time=NOON) as idle,
        Writer(url, stream, "beating", first_time=NOON, beat="always") as beating,
    ):
        idle.open()
        beating.open()
        shop.notes("fast", NOON + MINUTE, 0)
        shop.until(_is_expired(shop, "idle"), beating="fast")
        assert shop.states()["beating"] == "behind"


def test_a_writer_that_is_closed_or_has_left_beats_no_more(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded", aggregation_timeout_ms=TIMEOUT_MS)
    url, stream = shared_server.url, shop.name
    closed = Writer(url, stream, "closed", first_time=NOON, beat="always")
    left = Writer(url, stream, "left", first_time=NOON + MINUTE, beat="always")
    for writer in (closed, left):
        writer.open()
    closed.close()
    left.leave()
    shop.notes("fast", NOON + MINUTE, 0)
    shop.until(_is_expired(shop, "closed"), beating="fast")
    assert shop.states()["left"] == "left"


def test_a_beat_before_the_first_note_says_what_the_registration_told(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded", aggregation_timeout_ms=600)
    shop.notes("fast", NOON, 0)
    with Writer(shared_server.url, shop.name, "new", beat="always") as new:
        new.open()
        assert new.told_time == NOON
        wait_until(lambda: shop.states()["new"] == "active")
        assert {one["time"] for one in shop.writers()} == {NOON}
        with pytest.raises(InvalidTimeError):
            new.note_time(NOON - 1)
        new.note_time(NOON)


def test_a_beat_that_is_fenced_ends_the_writer(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded", aggregation_timeout_ms=600)
    writer = Writer(shared_server.url, shop.name, "api-1", first_time=NOON, beat="always")
    writer.open()
    shop.says("api-1", "register")
    wait_until(lambda: _fails(writer.flush))
    with pytest.raises(WriterFencedError) as fenced:
        writer.close()
    assert fenced.value.incarnation == 2


def _fails(call: Callable[[], None]) -> bool:
    try:
        call()
    except WriterFencedError:
        return True
    return False


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


def test_a_reporter_beats_when_it_is_told_to(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(aggregation_timeout_ms=TIMEOUT_MS)
    shop.notes("silent", NOON, 0)
    with TimeReporter(shared_server.url, shop.name, "slow") as slow:
        slow.note_time(NOON, {0: 4})

        def drops_the_silent_one() -> bool:
            slow.beat()
            return shop.states()["silent"] == "expired"

        shop.notes("fast", NOON + MINUTE, 0)
        shop.until(drops_the_silent_one, beating="fast")
        assert shop.states()["slow"] == "behind"


def test_a_reporter_can_beat_by_itself(shared_server: ServerProcess, open_shop: Open) -> None:
    shop = open_shop(aggregation_timeout_ms=TIMEOUT_MS)
    url, stream = shared_server.url, shop.name
    with (
        TimeReporter(url, stream, "idle", first_time=NOON) as idle,
        TimeReporter(url, stream, "beating", first_time=NOON, beat="always") as beating,
    ):
        idle.open()
        beating.open()
        shop.notes("fast", NOON + MINUTE, 0)
        shop.until(_is_expired(shop, "idle"), beating="fast")
        assert shop.states()["beating"] == "behind"


def test_a_reporter_tells_that_its_beat_was_fenced_at_the_next_call(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(aggregation_timeout_ms=600)
    with TimeReporter(
        shared_server.url, shop.name, "api-1", first_time=NOON, beat="always"
    ) as one:
        one.open()
        shop.says("api-1", "register")
        wait_until(lambda: _fails(one.open))
        with pytest.raises(WriterFencedError):
            one.note_time(NOON, {})
