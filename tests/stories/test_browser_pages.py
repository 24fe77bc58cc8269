"""What a browser without internet sees of the service."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from controller.http import front_page
from controller.http.front_page import FrontPage, ListedStanding
from tests.conftest import NewServer
from tests.dashboard import answers
from tests.patience import PATIENCE_S, wait_until
from tests.programs import python
from tests.server import Api, ServerProcess, free_port
from tests.tokens import Tokens

pytestmark = pytest.mark.only_on("sqlite", "pages come from the service alone")

NOON = 1_704_110_400_000
HTML = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
LINKS = {
    "documentation": "/docs",
    "metrics": "/metrics",
    "openapi": "/openapi.json",
    "streams": "/v1/streams",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, which reaches this machine and nothing else."""
    offline = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", offline],
        )
        yield chromium
        chromium.close()


@contextmanager
def _clean_page(browser: Browser, home: str) -> Iterator[Page]:
    """Open a page; at the end nothing was asked for elsewhere, and nothing was wrong."""
    page = browser.new_page()
    foreign: list[str] = []
    complaints: list[str] = []

    def note_request(request: Request) -> None:
        if not request.url.startswith((home, "data:")):
            foreign.append(request.url)

    def note_message(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            complaints.append(message.text)

    page.on("request", note_request)
    page.on("console", note_message)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert (foreign, complaints) == ([], [])


def test_the_calls_are_shown_without_internet_and_without_a_token(
    browser: Browser, new_server: NewServer, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path)
    with new_server(tokens=tokens.file) as server, _clean_page(browser, server.url) as page:
        page.goto(f"{server.url}/docs")
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
    with _clean_page(browser, server.url) as page:
        page.goto(server.url)
        assert page.get_by_role("row").all_inner_texts() == [
            "Stream\tWatermark\tState",
            "shop/orders\t2024-01-01T12:00:00.000Z\tmoving",
            "shop/empty\t—\tunused",
        ]
        assert page.title() == "Tidegauge"
        page.get_by_role("link", name="API documentation").click()
        page.locator(".opblock").first.wait_for()


def test_an_empty_service_teaches(browser: Browser, new_server: NewServer) -> None:
    with new_server() as server, _clean_page(browser, server.url) as page:
        page.goto(server.url)
        assert page.get_by_text("A watermark is the event time up to which").is_visible()
        commands = page.locator("li code").all_inner_texts()
        assert commands[0] == f"tidegauge create demo/first --url {server.url}"
        assert len(commands) == 3


def test_the_title_counts_the_streams_that_are_held() -> None:
    states = ("held by gateway-7 and 2 more for 53s", "moving", "held by b for 11s")
    streams = [ListedStanding(stream="a/b", watermark=NOON, state=state) for state in states]
    page = FrontPage(version="1", streams=streams, more=False, links={})
    url = "http://127.0.0.1:8470/"
    written = front_page._write(page, url=url, is_anonymous=False, standby="")
    assert "<title>2 held · Tidegauge</title>" in written


def test_a_program_gets_json_unless_it_asks_for_the_page(server: ServerProcess) -> None:
    with Api(server.url, "shop/orders") as api:
        api.create()
        api.post("seal", position={"0": 0})
    for accept in ("*/*", "application/json", "application/json, text/html"):
        answer = httpx.get(f"{server.url}/", headers={"accept": accept})
        assert answer.json()["streams"] == [
            {"stream": "shop/orders", "watermark": 2**63 - 1, "state": "ended"}
        ]
        assert answer.json()["links"] == LINKS
    page = httpx.get(f"{server.url}/", headers=HTML)
    assert page.headers["content-type"] == "text/html; charset=utf-8"


def test_streams_are_named_only_to_who_may_see_them(
    new_server: NewServer, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path)
    alice, bob = (tokens.header(who, who, "operate", "read") for who in ("alice", "bob"))
    with new_server(tokens=tokens.file) as server, httpx.Client(base_url=server.url) as client:
        for who, header in (("alice", alice), ("bob", bob)):
            client.put(f"/v1/streams/{who}/orders", json={}, headers=header).raise_for_status()
        assert [one["stream"] for one in client.get("/", headers=bob).json()["streams"]] == [
            "bob/orders"
        ]
        assert client.get("/").json()["streams"] == []
        assert "orders" not in client.get("/", headers=HTML).text
        wrong = {"authorization": "Bearer tg_no"}
        assert client.get("/", headers=wrong).json()["streams"] == []


def test_the_first_hundred_streams_are_named(server: ServerProcess) -> None:
    with httpx.Client(base_url=server.url) as client:
        for number in range(101):
            client.put(f"/v1/streams/many/s{number:03}", json={"segments": 1})
        page = client.get("/").json()
        assert (len(page["streams"]), page["more"]) == (100, True)
        assert "These are the first" in client.get("/", headers=HTML).text


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
        wait_until(lambda: answers(home) and answers(url))
        assert httpx.get(f"{home}healthz").json()["service"] == url.rstrip("/")
        assert httpx.get(url).json()["links"]["dashboard"] == home
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        assert not answers(home)


def test_a_dashboard_whose_port_is_taken_keeps_the_service_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGAUGE_PORT", str(free_port()))
    database = f"--database-url=sqlite:///{tmp_path / 'test.db'}"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("TIDEGAUGE_UI_PORT", str(port))
        refusals = {
            (
                "serve",
                "--ui",
                database,
            ): f"tidegauge serve: port {port} of the dashboard is taken",
            ("ui",): f"tidegauge ui: port {port} is taken; give --port\n",
        }
        for command, refusal in refusals.items():
            with python("-m", "tidegauge_cli", *command) as process:
                said, error = process.communicate(timeout=PATIENCE_S)
            assert (process.returncode, said) == (1, "")
            assert error.startswith(refusal)


def test_the_page_links_to_a_dashboard_if_it_is_told_where_one_is(
    new_server: NewServer,
) -> None:
    with new_server(ui_url="http://127.0.0.1:8787/") as server:
        assert httpx.get(f"{server.url}/").json()["links"]["dashboard"] == (
            "http://127.0.0.1:8787/"
        )
        page = httpx.get(f"{server.url}/", headers=HTML).text
        assert '<a href="http://127.0.0.1:8787/">Dashboard</a>' in page
