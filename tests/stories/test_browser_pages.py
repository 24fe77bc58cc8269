"""What a browser without internet sees of the service."""

import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser

from tests.conftest import NewServer
from tests.dashboard import chromium, clean_page
from tests.patience import PATIENCE_S, wait_until
from tests.programs import python
from tests.server import ServerProcess, free_port, is_well
from tests.service.api import Api
from tests.tokens import Tokens

pytestmark = pytest.mark.only_on("sqlite", "pages come from the service alone")

NOON = 1_704_110_400_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def test_the_calls_are_shown_without_internet_and_without_a_token(
    browser: Browser, new_server: NewServer, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path)
    with (
        new_server(tokens=tokens.file) as server,
        clean_page(browser, f"{server.url}/", "docs") as page,
    ):
        page.get_by_text("/v1/streams/{scope}/{stream}/writers/{writer}/note-time").wait_for()
        document = httpx.get(f"{server.url}/openapi.json").json()
        calls = sum(len(operations) for operations in document["paths"].values())
        assert page.locator(".opblock").count() == calls


def test_a_browser_sees_where_the_streams_stand(
    browser: Browser, server: ServerProcess
) -> None:
    with Api(server.url, "shop/orders") as api:
        api.create(max_future_skew_ms=None)
        api.note("a", NOON, 1)
    with Api(server.url, "shop/empty") as api:
        api.create()
    with clean_page(browser, f"{server.url}/") as page:
        assert page.get_by_role("row").all_inner_texts() == [
            "Stream\tWatermark\tState",
            "shop/orders\t2024-01-01T12:00:00.000Z\tmoving",
            "shop/empty\t—\tunused",
        ]
        assert page.title() == "Tidegauge"
        page.get_by_role("link", name="API documentation").click()
        page.locator(".opblock").first.wait_for()


def test_an_empty_service_teaches(browser: Browser, new_server: NewServer) -> None:
    with new_server() as server, clean_page(browser, f"{server.url}/") as page:
        assert page.get_by_text("A watermark is the event time up to which").is_visible()
        commands = page.locator("li code").all_inner_texts()
        assert commands[0] == f"tidegauge create demo/first --url {server.url}"
        assert len(commands) == 3


def test_a_dashboard_is_shown_beside_the_service_and_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, home = (f"http://127.0.0.1:{free_port()}/" for _ in range(2))
    monkeypatch.setenv("TIDEGAUGE_PORT", url.strip("/").rpartition(":")[2])
    monkeypatch.setenv("TIDEGAUGE_UI_PORT", home.strip("/").rpartition(":")[2])
    database = f"--database-url=sqlite:///{tmp_path / 'test.db'}"
    tmp_path.joinpath("dashboard.py").write_text(
        "raise SystemExit('not the one that is meant')"
    )
    monkeypatch.chdir(tmp_path)
    with python("-P", "-m", "tidegauge_cli", "serve", "--ui", database) as process:
        wait_until(lambda: is_well(f"{home}healthz") and is_well(f"{url}healthz"))
        assert httpx.get(f"{home}healthz").json()["service"] == url.rstrip("/")
        assert httpx.get(url).json()["links"]["dashboard"] == home
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        assert not is_well(f"{home}healthz")


def test_a_dashboard_whose_port_is_taken_keeps_the_service_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGAUGE_PORT", str(free_port()))
    database = f"--database-url=sqlite:///{tmp_path / 'test.db'}"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("TIDEGAUGE_UI_PORT", str(port))
        for command, refusal in [
            (
                ("serve", "--ui", database),
                f"tidegauge serve: port {port} of the dashboard is taken",
            ),
            (("ui",), f"tidegauge ui: port {port} is taken; give --port\n"),
        ]:
            with python("-m", "tidegauge_cli", *command) as process:
                said, error = process.communicate(timeout=PATIENCE_S)
            assert (process.returncode, said) == (1, "")
            assert error.startswith(refusal)
