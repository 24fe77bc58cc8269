"""Two services behind one proxy, which sends each scope to one of them."""

import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from tests.linked import ROOT
from tests.patience import wait_until
from tests.server import ServerProcess, free_port
from tests.spark.feed import Feed, Followed
from writer_client import Writer

SCOPES = ("orders", "clicks")
"""Of the first and of the second service."""


@pytest.fixture
def services(tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Start two services, each with a database of its own."""
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    first, second = (
        ServerProcess(folder, database_url=f"sqlite:///{folder / 'tidegauge.db'}")
        for folder in folders
    )
    with first, second:
        yield [first, second]


@pytest.fixture
def proxy(services: list[ServerProcess]) -> Iterator[str]:
    """Start the proxy, and return its URL."""
    port = free_port()
    environment = {"TIDEGAUGE_HOST": "127.0.0.1", "TIDEGAUGE_PORT": str(port)}
    for name, service in zip(("SERVICE_A", "SERVICE_B"), services, strict=True):
        environment[name] = f"127.0.0.1:{service.port}"
    command = ["haproxy", "-db", "-f", str(ROOT / "deploy" / "haproxy-scopes.cfg")]
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, env=os.environ | environment) as process:
        try:
            for scope in SCOPES:
                wait_until(partial(_is_reached, f"{url}/v1/streams/{scope}/none"))
            yield url
        finally:
            process.kill()


def test_a_scope_does_not_notice_that_the_service_of_another_is_lost(
    services: list[ServerProcess], proxy: str, spark: SparkSession, tmp_path: Path
) -> None:
    feeds = [Feed(proxy, f"{scope}/rides") for scope in SCOPES]
    for feed in feeds:
        with feed:
            feed.create()
    listed = [httpx.get(f"{service.url}/v1/streams").json() for service in services]
    names = [[stream["stream"] for stream in found["streams"]] for found in listed]
    assert names == [["orders/rides"], ["clicks/rides"]]
    with (
        Writer(proxy, "orders/rides", "gateway-1") as orders,
        Writer(proxy, "clicks/rides", "gateway-1") as clicks,
        Followed(feeds[0].load(spark).select("value"), str(tmp_path / "orders")) as read_orders,
        Followed(feeds[1].load(spark).select("value"), str(tmp_path / "clicks")) as read_clicks,
    ):
        for number, (writer, query) in enumerate(
            ((orders, read_orders), (clicks, read_clicks)), start=1
        ):
            writer.write(f"v{number}", key="k", event_time=86_400_000 + number)
            writer.note_time(86_400_000 + number)
            query.until_read(number)
        services[0].kill()
        clicks.write("v3", key="k", event_time=86_400_003)
        clicks.note_time(86_400_003)
        read_clicks.until_read(3)
        services[0].start()
        orders.write("v4", key="k", event_time=86_400_004)
        orders.note_time(86_400_004)
        read_orders.until_read(4)
        rows = [[value for (value,) in query.rows] for query in (read_orders, read_clicks)]
    assert rows == [[b"v1", b"v4"], [b"v2", b"v3"]]
    _check_refusals(proxy)


def _check_refusals(proxy: str) -> None:
    for path in ("/v1/streams", "/v1/reader-groups", "/v1/note-times", "/"):
        answer = httpx.get(f"{proxy}{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "scope_required")
        assert "ask a service by its own URL" in answer.json()["detail"]


def _is_reached(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 404
    except httpx.HTTPError:
        return False
