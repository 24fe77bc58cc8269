"""Writers and reporters that note by a strategy, over a real server."""

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
from tests.server import Api, ServerProcess
from tests.service.shop import MINUTE, NOON, Open, Shop
from tidegauge.errors import InvalidTimeError, WriterFencedError
from writer_client import AsyncTimeReporter, AsyncWriter, TimeReporter, Writer
from writer_client.strategies import (
    BoundedOutOfOrderness,
    MonotonousTimestamps,
    Now,
    PerPartition,
    Punctuated,
    Strategy,
    TimeLag,
    WithIdleness,
)

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"
PAGES = [GUIDES / "choose-a-strategy.md", GUIDES / "own-log.md"]
NEVER = timedelta(hours=1)
"""An interval in which a test asks no strategy."""
SOON = timedelta(milliseconds=20)
TIMEOUT_MS = 1_500
HOUR = 60 * MINUTE


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _stands(shop: Shop, at: int) -> Callable[[], bool]:
    return lambda: shop.watermark == at


def test_a_bounded_writer_notes_its_maximum_less_the_delay_by_itself(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded")
    strategy = BoundedOutOfOrderness(timedelta(seconds=10))
    with Writer(shared_server.url, shop.name, "api-1", strategy=strategy) as writer:
        writer.write("1", key="k", event_time=NOON)
        wait_until(_stands(shop, NOON - 10_000))
        writer.write("2", key="k", event_time=NOON + MINUTE)
        writer.write("3", key="k", event_time=NOON + 55_000)
        wait_until(_stands(shop, NOON + 50_000))
        assert writer.late_events == 0
        writer.write("4", key="k", event_time=NOON + 49_999)
        assert writer.late_events == 1


def test_many_events_are_shown_to_the_strategy_one_after_the_other(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded")
    strategy = PerPartition(lambda: BoundedOutOfOrderness(timedelta(seconds=10)), [7, 8])
    with Writer(shared_server.url, shop.name, "api-1", strategy=strategy) as writer:
        for source in (7, 8):
            times = [NOON, NOON + source * MINUTE, NOON + MINUTE]
            writer.write_many(["1", "2", "3"], keys=["k"] * 3, event_times=times, source=source)
        wait_until(_stands(shop, NOON + 7 * MINUTE - 10_000))
        assert writer.late_events == 0


def test_what_is_written_shortly_before_the_end_is_noted_too(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded")
    for name, end in (
        ("closes", Writer.close),
        ("flushes", Writer.flush),
        ("leaves", Writer.leave),
    ):
        at = (shop.watermark or NOON) + MINUTE
        writer = Writer(
            shared_server.url,
            shop.name,
            "api-1",
            strategy=MonotonousTimestamps(),
            note_interval=NEVER,
        )
        writer.write(name, key="k", event_time=at)
        end(writer)
        assert shop.mark == (at, {"0": {"closes": 1, "flushes": 2, "leaves": 3}[name]})
        writer.close()


def test_a_marker_is_noted_at_once_and_covers_exactly_what_is_before_it(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded")
    strategy = Punctuated(lambda event: event.event_time if event.key == "hour" else None)
    with Writer(
        shared_server.url, shop.name, "api-1", strategy=strategy, note_interval=NEVER
    ) as writer:
        writer.write("reading", key="k", event_time=NOON - 1)
        writer.write("closed", key="hour", event_time=NOON)
        writer.write("reading", key="k", event_time=NOON + 1)
        wait_until(_stands(shop, NOON))
        assert shop.mark == (NOON, {"0": 2})


def test_an_asynchronous_writer_notes_by_itself(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded")

    async def write() -> int:
        strategy = BoundedOutOfOrderness(timedelta(seconds=10))
        async with AsyncWriter(
            shared_server.url, shop.name, "one", strategy=strategy
        ) as writer:
            await writer.write("1", key="k", event_time=NOON)
            await writer.write("2", key="k", event_time=_wall_ms() + 2 * HOUR)
            await asyncio.to_thread(wait_until, _stands(shop, NOON - 10_000))
            return writer.future_events

    assert asyncio.run(write()) == 1


def test_what_is_too_far_in_the_future_is_up_to_the_stream(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    for skew_ms in (24 * HOUR, None):
        shop = open_shop(log="embedded", max_future_skew_ms=skew_ms)
        at = _wall_ms() + 2 * HOUR
        with Writer(
            shared_server.url, shop.name, "one", strategy=MonotonousTimestamps()
        ) as writer:
            writer.write("1", key="k", event_time=at)
            wait_until(_stands(shop, at))
            assert writer.future_events == 0


def test_a_writer_may_promise_more_than_its_strategy_and_never_less(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded")
    strategy = BoundedOutOfOrderness(timedelta(hours=1))
    with Writer(shared_server.url, shop.name, "api-1", strategy=strategy) as writer:
        writer.write("the last of the day", key="k", event_time=NOON)
        wait_until(_stands(shop, NOON - HOUR))
        writer.note_time(NOON + MINUTE)
        wait_until(_stands(shop, NOON + MINUTE))
        with pytest.raises(InvalidTimeError):
            writer.note_time(NOON)
        writer.write("the next day", key="k", event_time=NOON + 2 * HOUR)
        wait_until(_stands(shop, NOON + HOUR))


def test_a_quiet_writer_beats_unless_its_strategy_is_idle(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded", aggregation_timeout_ms=TIMEOUT_MS)
    url, stream = shared_server.url, shop.name
    idle_soon = WithIdleness(MonotonousTimestamps(), timedelta(milliseconds=1))
    with (
        Writer(url, stream, "quiet", strategy=MonotonousTimestamps()) as quiet,
        Writer(url, stream, "idle", strategy=idle_soon) as idle,
    ):
        quiet.write("1", key="k", event_time=NOON)
        idle.write("1", key="k", event_time=NOON)
        wait_until(_stands(shop, NOON))
        shop.notes("fast", NOON + MINUTE, 0)
        shop.until(lambda: shop.states()["idle"] == "expired", beating="fast")
        assert shop.states()["quiet"] == "behind"
        idle.write("2", key="k", event_time=NOON + MINUTE)
        wait_until(lambda: shop.states()["idle"] == "active")


class _Looking(Strategy):
    """Keeps what the clocks showed whenever it was asked."""

    def __init__(self) -> None:
        self.looks: list[Now] = []

    def time(self, now: Now) -> None:
        self.looks.append(now)

    def runs(self, count: int) -> bool:
        """Whether the clock of idleness went on between each of the last looks."""
        return len({now.running_ms for now in self.looks[-count:]}) == count

    def stands(self, count: int) -> bool:
        """Whether the wall clock went on and that of idleness stood."""
        last = self.looks[-count:]
        walls, shown = {now.wall_ms for now in last}, {now.running_ms for now in last}
        return len(walls) == count and len(shown) == 1


def test_the_clock_of_idleness_stands_while_a_writer_is_blocked(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded")
    looking = _Looking()
    with Writer(
        shared_server.url,
        shop.name,
        "api-1",
        strategy=looking,
        note_interval=SOON,
        linger=NEVER,
        buffer_bytes=1,
    ) as writer:
        writer.open()
        wait_until(lambda: looking.runs(5))
        writer.write("fills the buffer", key="k", event_time=NOON)
        blocked = threading.Thread(
            target=writer.write, args=("waits",), kwargs={"key": "k", "event_time": NOON}
        )
        blocked.start()
        wait_until(lambda: looking.stands(5))
        writer.flush()
        blocked.join()
        wait_until(lambda: looking.runs(5))


def test_the_clock_of_idleness_stands_while_an_asynchronous_writer_is_blocked(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(log="embedded")
    looking = _Looking()

    async def write() -> None:
        async with AsyncWriter(
            shared_server.url,
            shop.name,
            "api-1",
            strategy=looking,
            note_interval=SOON,
            linger=NEVER,
            buffer_bytes=1,
        ) as writer:
            await asyncio.to_thread(wait_until, lambda: looking.runs(5))
            await writer.write("fills the buffer", key="k", event_time=NOON)
            blocked = asyncio.create_task(writer.write("waits", key="k", event_time=NOON))
            await asyncio.to_thread(wait_until, lambda: looking.stands(5))
            await writer.flush()
            await blocked
            await asyncio.to_thread(wait_until, lambda: looking.runs(5))

    asyncio.run(write())


def test_a_second_strategy_and_an_interval_of_nothing_are_refused(
    shared_server: ServerProcess,
) -> None:
    with pytest.raises(ValueError, match="leave one of them out"):
        Writer(
            shared_server.url,
            "shop/orders",
            "one",
            strategy=TimeLag(SOON),
            automatically_note_time=True,
        )
    for client in (Writer, TimeReporter):
        with pytest.raises(ValueError, match="pass a timedelta above zero"):
            client(shared_server.url, "shop/orders", "one", note_interval=timedelta(0))


def test_a_reporter_notes_with_the_position_it_was_shown(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop(segments=2)
    strategy = BoundedOutOfOrderness(timedelta(seconds=10))
    with TimeReporter(shared_server.url, shop.name, "api-1", strategy=strategy) as reporter:
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


def test_an_asynchronous_reporter_notes_a_marker_at_once(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop()
    strategy = Punctuated(lambda event: event.event_time if event.source == 7 else None)

    async def report() -> None:
        async with AsyncTimeReporter(
            shared_server.url, shop.name, "api-1", strategy=strategy, note_interval=NEVER
        ) as reporter:
            await reporter.observe(NOON + 1, {0: 5}, source=6)
            await reporter.observe(NOON, {0: 6}, source=7)
            await asyncio.to_thread(wait_until, _stands(shop, NOON))

    asyncio.run(report())
    assert shop.mark == (NOON, {"0": 6})


def test_a_reporter_that_leaves_says_the_last_time_of_its_strategy(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop()
    leaver = TimeReporter(
        shared_server.url,
        shop.name,
        "api-1",
        strategy=MonotonousTimestamps(),
        note_interval=NEVER,
    )
    leaver.observe(NOON, {0: 5})
    leaver.leave()
    (left,) = shop.writers()
    assert (left["state"], left["time"], left["position"]) == ("left", NOON, {"0": 5})


def test_a_reporter_goes_on_after_an_outage_with_what_it_was_shown_meanwhile(
    server: ServerProcess,
) -> None:
    short = timedelta(milliseconds=50)
    with (
        Shop(server.url) as shop,
        TimeReporter(
            server.url,
            shop.name,
            "api-1",
            strategy=MonotonousTimestamps(),
            note_interval=SOON,
            retry_for=short,
        ) as reporter,
    ):
        reporter.observe(NOON, {0: 5})
        wait_until(_stands(shop, NOON))
        server.kill()
        reporter.observe(NOON + MINUTE, {0: 6})
        server.start()
        wait_until(lambda: shop.mark == (NOON + MINUTE, {"0": 6}))


def test_a_reporter_tells_that_its_note_was_fenced_at_the_next_call(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop()
    reporter = TimeReporter(
        shared_server.url,
        shop.name,
        "api-1",
        strategy=MonotonousTimestamps(),
        note_interval=SOON,
    )
    reporter.observe(NOON, {0: 5})
    shop.says("api-1", "register")

    def is_told() -> bool:
        try:
            reporter.observe(_wall_ms(), {0: 6})
        except WriterFencedError:
            return True
        return False

    wait_until(is_told)
    with pytest.raises(WriterFencedError):
        reporter.close()


def test_a_reporter_without_a_strategy_observes_nothing(
    shared_server: ServerProcess, open_shop: Open
) -> None:
    shop = open_shop()
    with (
        TimeReporter(shared_server.url, shop.name, "api-1") as reporter,
        pytest.raises(ValueError, match="this reporter has no strategy"),
    ):
        reporter.observe(NOON, {0: 5})


def test_the_examples_of_the_pages_run(
    shared_server: ServerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    for stream, log in {
        "flights": "embedded",
        "rides": "embedded",
        "orders": "external",
    }.items():
        with Api(shared_server.url, f"page/{stream}") as api:
            api.create(log=log, segments=4)
    text = "\n".join(page.read_text() for page in PAGES)
    examples = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(examples) == 5
    for text in examples:
        example = re.sub(r'"(demo|shop)/', '"page/', text)
        names: dict[str, Any] = {}
        exec(example.replace("http://127.0.0.1:8470", shared_server.url), names)
    assert capsys.readouterr().out == "0 0\n"
