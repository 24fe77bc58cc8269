"""Two services behind one proxy, which sends each scope to one of them."""

import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.linked import ROOT
from tests.patience import wait_until
from tests.server import ServerProcess, free_port
from tests.service.api import MINUTE, NOON, Api

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
    services: list[ServerProcess], proxy: str
) -> None:
    with Api(proxy, "orders/rides") as orders, Api(proxy, "clicks/rides") as clicks:
        for stream in (orders, clicks):
            stream.create()
            stream.note("gateway-1", NOON)
        listed = [httpx.get(f"{service.url}/v1/streams").json() for service in services]
        names = [[stream["stream"] for stream in found["streams"]] for found in listed]
        assert names == [["orders/rides"], ["clicks/rides"]]
        services[0].kill()
        clicks.note("gateway-1", NOON + MINUTE)
        services[0].start()
        wait_until(partial(_is_reached, f"{proxy}/v1/streams/orders/none"))
        orders.note("gateway-1", NOON + 2 * MINUTE)
        assert (orders.watermark, clicks.watermark) == (NOON + 2 * MINUTE, NOON + MINUTE)
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
