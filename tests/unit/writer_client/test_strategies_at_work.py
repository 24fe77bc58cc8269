"""Writers and reporters that note by a strategy: when they ask it, and what its time covers."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.patience import wait_until
from tests.service.api import MINUTE, NOON, Api, Open
from tidegauge.errors import InvalidTimeError
from writer_client import AsyncTimeReporter, AsyncWriter, Writer
from writer_client.strategies import (
    BoundedOutOfOrderness,
    MonotonousTimestamps,
    Punctuated,
)

GUIDES = Path(__file__).parents[3] / "docs" / "how-to"
PAGES = [GUIDES / "choose-a-strategy.md", GUIDES / "own-log.md"]
NEVER = timedelta(hours=1)
"""An interval in which a test asks no strategy."""
SOON = timedelta(milliseconds=20)
TEN_SECONDS = timedelta(seconds=10)
HOUR = 60 * MINUTE


@pytest.fixture
def shop(open_shop: Open) -> Api:
    """A stream with a log of one segment."""
    return open_shop(log="embedded")


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _stands(shop: Api, at: int) -> Callable[[], bool]:
    return lambda: shop.watermark == at


@pytest.mark.parametrize("end", ["close", "flush", "leave"])
def test_what_is_written_shortly_before_the_end_is_noted_too(shop: Api, end: str) -> None:
    writer = shop.writer(strategy=MonotonousTimestamps(), note_interval=NEVER)
    writer.write(end, key="k", event_time=NOON)
    getattr(writer, end)()
    assert shop.mark == (NOON, {"0": 1})
    writer.close()


def test_a_marker_is_noted_at_once_and_covers_exactly_what_is_before_it(shop: Api) -> None:
    strategy = Punctuated(lambda event: event.event_time if event.key == "hour" else None)
    with shop.writer(strategy=strategy, note_interval=NEVER) as writer:
        writer.write("reading", key="k", event_time=NOON - 1)
        writer.write("closed", key="hour", event_time=NOON)
        writer.write("reading", key="k", event_time=NOON + 1)
        wait_until(_stands(shop, NOON))
        assert shop.mark == (NOON, {"0": 2})


@pytest.mark.parametrize(("skew_ms", "future"), [(HOUR, 1), (24 * HOUR, 0), (None, 0)])
def test_what_is_too_far_in_the_future_is_up_to_the_stream(
    open_shop: Open, skew_ms: int | None, future: int
) -> None:
    shop = open_shop(log="embedded", max_future_skew_ms=skew_ms)
    now, then = _wall_ms(), _wall_ms() + 2 * HOUR
    with shop.writer(strategy=MonotonousTimestamps()) as writer:
        for time_ms in (now, then):
            writer.write("1", key="k", event_time=time_ms)
        wait_until(_stands(shop, now if future else then))
        assert writer.future_events == future


def test_a_writer_may_promise_more_than_its_strategy_and_never_less(shop: Api) -> None:
    with shop.writer(strategy=BoundedOutOfOrderness(NEVER)) as writer:
        writer.write("the last of the day", key="k", event_time=NOON)
        wait_until(_stands(shop, NOON - HOUR))
        writer.note_time(NOON + MINUTE)
        wait_until(_stands(shop, NOON + MINUTE))
        with pytest.raises(InvalidTimeError):
            writer.note_time(NOON)
        writer.write("the next day", key="k", event_time=NOON + 2 * HOUR)
        wait_until(_stands(shop, NOON + HOUR))


def test_ingestion_time_advances_while_nothing_is_written(shop: Api) -> None:
    with shop.writer(automatically_note_time=True, note_interval=SOON) as writer:
        writer.write("1", key="k")
        wait_until(lambda: len(shop.marks()) >= 3)
    (((event_time,),),) = shop.stored("event_time")
    assert _wall_ms() - MINUTE < event_time <= _wall_ms()


BLOCKED: dict[str, Any] = {
    "strategy": MonotonousTimestamps(),
    "note_interval": NEVER,
    "linger": NEVER,
    "buffer_bytes": 1,
}
"""Options of a writer that a first event blocks until it flushes, once it is at work."""


def _is_at_work(writer: Writer | AsyncWriter) -> bool:
    return not writer._core.sending._urgent.is_set()


def _blocked_callers(writer: Writer | AsyncWriter) -> int:
    strategy = writer._member.strategy
    assert strategy is not None
    return strategy.running._blocked


def test_the_clock_of_idleness_stands_while_a_writer_is_blocked(shop: Api) -> None:
    with shop.writer(**BLOCKED) as writer:
        writer.open()
        wait_until(lambda: _is_at_work(writer))
        writer.write("fills the buffer", key="k")
        blocked = threading.Thread(target=lambda: writer.write("waits", key="k"))
        blocked.start()
        wait_until(lambda: _blocked_callers(writer) == 1)
        writer.flush()
        blocked.join()
        assert _blocked_callers(writer) == 0


def test_a_reporter_notes_with_the_position_it_was_shown(open_shop: Open) -> None:
    shop = open_shop(segments=2)
    with shop.reporter(strategy=BoundedOutOfOrderness(TEN_SECONDS)) as reporter:
        reporter.observe(NOON, {0: 5})
        wait_until(_stands(shop, NOON - 10_000))
        assert shop.mark == (NOON - 10_000, {"0": 5, "1": 0})
        reporter.observe(NOON + MINUTE, {1: 8})
        reporter.observe(NOON + 55_000, {0: 4})
        wait_until(_stands(shop, NOON + 50_000))
        reporter.observe(NOON, {0: 6})
        assert reporter.late_events == 1
    wait_until(lambda: shop.mark == (NOON + 50_000, {"0": 5, "1": 8}))
    (left,) = shop.writers()
    assert (left["time"], left["position"]) == (NOON + 50_000, {"0": 6, "1": 8})


@pytest.mark.anyio
async def test_an_asynchronous_reporter_notes_a_marker_at_once(open_shop: Open) -> None:
    shop = open_shop()
    strategy = Punctuated(lambda event: event.event_time if event.source == 7 else None)
    options: Any = {"strategy": strategy, "note_interval": NEVER}
    async with AsyncTimeReporter(shop.url, shop.name, "api-1", **options) as reporter:
        await reporter.observe(NOON + 1, {0: 5}, source=6)
        await reporter.observe(NOON, {0: 6}, source=7)
        await asyncio.to_thread(wait_until, _stands(shop, NOON))
    assert shop.mark == (NOON, {"0": 6})


def test_a_reporter_that_leaves_says_the_last_time_of_its_strategy(open_shop: Open) -> None:
    shop = open_shop()
    leaver = shop.reporter(strategy=MonotonousTimestamps(), note_interval=NEVER)
    leaver.observe(NOON, {0: 5})
    leaver.leave()
    (left,) = shop.writers()
    assert (left["state"], left["time"], left["position"]) == ("left", NOON, {"0": 5})


def test_a_reporter_without_a_strategy_observes_nothing(open_shop: Open) -> None:
    with (
        open_shop().reporter() as reporter,
        pytest.raises(ValueError, match="this reporter has no strategy"),
    ):
        reporter.observe(NOON, {0: 5})


def test_the_examples_of_the_pages_run(
    open_shop: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    streams = {"flights": "embedded", "rides": "embedded", "orders": "external"}
    shops = {stream: open_shop(log=log, segments=4) for stream, log in streams.items()}
    text = "\n".join(page.read_text() for page in PAGES)
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) == 5
    for example in examples:
        code = re.sub(r'"(?:demo|shop)/(\w+)', lambda name: f'"{shops[name[1]].name}', example)
        names: dict[str, Any] = {}
        exec(code.replace("http://127.0.0.1:8470", shops["orders"].url), names)
    assert capsys.readouterr().out == "0 0\n"
