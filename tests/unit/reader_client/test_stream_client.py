"""What operators do from Python: settings, waits, and streams that were replaced meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
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
    StreamReplacedError,
    UnknownStreamError,
)


def _client(shop: Api) -> StreamClient:
    return StreamClient(shop.url, shop.name)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("min_writers", None, "null is not an integer; send a JSON integer"),
        ("log", "kafka", "Input should be 'embedded' or 'external'"),
        ("mark_interval_ms", -1, "Input should be greater than or equal"),
        ("partitions", 4, "there is no such setting; there are aggregation_tim"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_its_value_and_what_can_be(
    name: str, value: object, problem: str
) -> None:
    said = f"^{name}={value!r}: {problem}"
    with StreamClient(f"http://127.0.0.1:{free_port()}", "operated/never") as client:
        calls = [client.create, client.configure]
        for call in calls[: 1 if name == "log" else 2]:  # the log cannot change
            with pytest.raises(ValueError, match=said):
                call(**{name: value})


@pytest.mark.anyio
async def test_what_came_with_a_chunk_is_read_on_without_another_request(
    open_shop: Open,
) -> None:
    shop = open_shop(log="embedded")
    shop.write(*((str(number), None) for number in range(10)))
    async with aclosing(AsyncStreamClient(shop.url, shop.name)) as client:
        pages = [await client.fetch(0, 0, 4)]
        await client.delete()
        pages += [await client.fetch(0, 4, 6), await client.fetch(0, 6, 10)]
        with pytest.raises(UnknownStreamError):
            await client.fetch(0, 0, 4)
    keys = [events.batch.column("key").to_pylist() for page in pages for events in page]
    assert keys == [["0", "1", "2", "3"], ["4", "5"], ["6", "7", "8", "9"]]


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
        said = "no writer is ahead"
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


def test_writers_are_listed_all_or_those_in_a_state(shop: Api) -> None:
    many = 1_001
    shop.many({"writer": f"w{n:04}", "time": NOON, "position": {}} for n in range(many))
    shop.note("fast", NOON + 1)
    with _client(shop) as client:
        names = ["fast", *(f"w{n:04}" for n in range(many))]
        assert [one.writer for one in client.writers()] == names
        assert len(client.writers(state="behind")) == many
        assert [one.writer for one in client.writers(state="active")] == ["fast"]
        assert client.writers(state="left") == []


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
