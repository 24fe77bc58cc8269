"""What operators do from Python: list the writers of a stream, and drop one."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from reader_client import (
    AsyncStreamClient,
    ServiceUnreachableError,
    StreamClient,
    WatermarkTimeoutError,
)
from tests.patience import PATIENCE_S
from tests.server import free_port
from tests.service.api import NOON, Api, Open
from tidegauge.errors import (
    ImmutableSettingError,
    StreamExistsError,
    StreamReplacedError,
    UnknownStreamError,
    UnknownWriterError,
)

MANY = 1_001


@pytest.fixture
def crowd(open_shop: Open) -> Api:
    """A stream with more writers than a page holds, one of which is ahead."""
    shop = open_shop()
    shop.many({"writer": f"w{n:04}", "time": NOON, "position": {}} for n in range(MANY))
    shop.note("fast", NOON + 1)
    return shop


def _client(shop: Api) -> StreamClient:
    return StreamClient(shop.url, shop.name)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"min_writers": None},
            "min_writers=None: null is not an integer; send a JSON integer",
        ),
        ({"log": "kafka"}, "log='kafka': Input should be 'embedded' or 'external'"),
        (
            {"mark_interval_ms": -1},
            "mark_interval_ms=-1: Input should be greater than or equal",
        ),
        (
            {"partitions": 4},
            "partitions=4: there is no such setting; there are aggregation_tim",
        ),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_its_value_and_what_can_be(
    settings: dict[str, object], problem: str
) -> None:
    with StreamClient(f"http://127.0.0.1:{free_port()}", "operated/never") as client:
        with pytest.raises(ValueError, match=problem) as refused:
            client.create(**settings)
        assert "pydantic" not in str(refused.value)
        if "log" not in settings:
            with pytest.raises(ValueError, match=problem):
                client.configure(**settings)


def test_writers_are_listed_all_or_those_in_a_state(crowd: Api) -> None:
    with _client(crowd) as client:
        names = ["fast", *(f"w{n:04}" for n in range(MANY))]
        assert [one.writer for one in client.writers()] == names
        assert len(client.writers(state="behind")) == MANY
        assert [one.writer for one in client.writers(state="active")] == ["fast"]
        assert client.writers(state="left") == []


def test_a_writer_that_holds_the_others_up_is_dropped(crowd: Api) -> None:
    with _client(crowd) as client:
        dropped = client.expire("w0007")
        assert (dropped.writer, dropped.state) == ("w0007", "expired")
        assert [one.writer for one in client.writers(state="expired")] == ["w0007"]
        with pytest.raises(UnknownWriterError):
            client.expire("nobody")
        with pytest.raises(ValueError, match="'a/b' is not a valid name"):
            client.expire("a/b")


def test_a_wait_for_events_may_outlast_the_silence_of_other_calls(
    open_shop: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, patience_s = httpx.AsyncClient.send, list[float]()

    async def record(
        client: httpx.AsyncClient, request: httpx.Request, **more: Any
    ) -> httpx.Response:
        patience_s.append(request.extensions["timeout"]["read"])
        return await send(client, request, **more)

    monkeypatch.setattr(httpx.AsyncClient, "send", record)
    with _client(open_shop(log="embedded")) as client:
        client.tail()
        assert client.tail(after={0: 0}, wait_ms=50).tail == {0: 0}
    silence_s, wait_s = patience_s
    assert wait_s == pytest.approx(silence_s + 0.05)


def test_what_came_with_a_chunk_is_read_on_without_another_request(open_shop: Open) -> None:
    shop = open_shop(log="embedded")
    shop.write(*((str(number), None) for number in range(10)))

    async def read() -> list[list[str]]:
        client = AsyncStreamClient(shop.url, shop.name)
        try:
            pages = [await client.fetch(0, 0, 4)]
            await client.delete()
            pages += [await client.fetch(0, 4, 6), await client.fetch(0, 6, 10)]
            with pytest.raises(UnknownStreamError):
                await client.fetch(0, 0, 4)
        finally:
            await client.aclose()
        return [events.batch.column("key").to_pylist() for page in pages for events in page]

    assert asyncio.run(read()) == [["0", "1", "2", "3"], ["4", "5"], ["6", "7", "8", "9"]]


def test_a_stream_is_created_configured_and_deleted(shop: Api) -> None:
    shop.client.delete(shop.path).raise_for_status()
    with _client(shop) as client:
        first = client.create(segments=2, min_writers=2)
        assert (first.config.segments, first.config.min_writers) == (2, 2)
        assert client.create(segments=2).stream_id == first.stream_id
        with pytest.raises(StreamExistsError, match=f"tidegauge configure {shop.name}"):
            client.create(min_writers=1)
        changed = client.configure(min_writers=1, aggregation_timeout_ms=None)
        assert (changed.config.min_writers, changed.config.aggregation_timeout_ms) == (1, None)
        with pytest.raises(ImmutableSettingError):
            client.configure(segments=3)
        client.delete()
        with pytest.raises(UnknownStreamError, match="in Python StreamClient"):
            client.delete()
        assert client.create(segments=1).stream_id != first.stream_id
        assert client.describe().config.segments == 1


@pytest.mark.parametrize("look", ["create", "describe", "writers"])
def test_a_client_that_looked_at_a_stream_changes_no_other_of_its_name(
    shop: Api, look: str
) -> None:
    with _client(shop) as late:
        getattr(late, look)()
        shop.client.delete(shop.path).raise_for_status()
        shop.create()
        shop.note("w", NOON)
        for call in (
            lambda: late.configure(min_writers=3),
            lambda: late.expire("w"),
            late.delete,
        ):
            with pytest.raises(StreamReplacedError):
                call()
    assert shop.client.get(shop.path).json()["config"]["min_writers"] == 0
    assert shop.states() == {"w": "active"}


def test_a_time_is_waited_for(open_shop: Open) -> None:
    shop, noon = open_shop(), datetime(2024, 1, 1, 12, tzinfo=UTC)
    with _client(shop) as client, ThreadPoolExecutor() as thread:
        shop.note("a", NOON - 1, 1)
        said = "no writer is ahead; it advances"
        with pytest.raises(WatermarkTimeoutError, match=said) as caught:
            client.wait_until(noon, timedelta(milliseconds=50))
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.explanation.reason == "caught_up"
        assert (caught.value.stream, caught.value.watermark) == (shop.name, NOON - 1)
        with pytest.raises(
            WatermarkTimeoutError, match=r"not complete below 2024-01-01T12:00:00\.0"
        ):
            client.wait_until(noon - timedelta(microseconds=1), timedelta(0))
        with pytest.raises(ValueError, match=r"are these seconds\?.*1704110400000"):
            client.wait_until(1_704_110_400)
        with pytest.raises(TypeError, match=r"timedelta\(seconds=10\)"):
            client.wait_until(noon, 1)  # type: ignore[arg-type]
        waiting = thread.submit(client.wait_until, noon)
        shop.note("a", NOON, 2)
        assert waiting.result(timeout=PATIENCE_S) == NOON


def test_a_wait_ends_soon_after_its_time_though_the_service_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.client.stream_calls._LAST_WORD_S", 0.1)
    hour = timedelta(hours=1)
    nobody = f"http://127.0.0.1:{free_port()}"
    with (
        StreamClient(nobody, "operated/away", retry_for=hour) as client,
        pytest.raises(ServiceUnreachableError, match="after the timeout"),
    ):
        client.wait_until(NOON, timedelta(milliseconds=50))
