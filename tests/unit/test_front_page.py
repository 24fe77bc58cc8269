"""The page at /: JSON for a program, HTML for a browser, and the streams that the caller may see."""

from pathlib import Path

import pytest

from controller.configuration import ServeSettings
from controller.http import front_page
from controller.http.front_page import FrontPage, ListedState
from tests.service.in_process import called_in_process
from tests.tokens import Tokens

NOON = 1_704_110_400_000
HTML = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
LINKS = {
    "documentation": "/docs",
    "metrics": "/metrics",
    "openapi": "/openapi.json",
    "streams": "/v1/streams",
}


@pytest.fixture
def settings(tmp_path: Path) -> ServeSettings:
    return ServeSettings(database_url=f"sqlite:///{tmp_path / 'tidegauge.db'}")


def test_the_title_counts_the_streams_that_are_held() -> None:
    states = ("held by gateway-7 and 2 more for 53s", "moving", "held by b for 11s")
    streams = [ListedState(stream="a/b", watermark=NOON, state=state) for state in states]
    page = FrontPage(version="1", streams=streams, more=False, links={})
    url = "http://127.0.0.1:8470/"
    written = front_page._write(page, url=url, is_anonymous=False, standby="")
    assert "<title>2 held · Tidegauge</title>" in written


def test_a_program_gets_json_unless_it_asks_for_the_page(settings: ServeSettings) -> None:
    with called_in_process(settings) as client:
        client.put("/v1/streams/shop/orders", json={"log": "embedded"}).raise_for_status()
        client.post("/v1/streams/shop/orders/seal", json={}).raise_for_status()
        for accept in ("*/*", "application/json", "application/json, text/html"):
            shown = client.get("/", headers={"accept": accept}).json()
            assert shown["streams"] == [
                {"stream": "shop/orders", "watermark": 2**63 - 1, "state": "ended"}
            ]
            assert shown["links"] == LINKS
        page = client.get("/", headers=HTML)
        assert page.headers["content-type"] == "text/html; charset=utf-8"


def test_streams_are_named_only_to_who_may_see_them(
    settings: ServeSettings, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path)
    alice, bob = (tokens.header(who, who, "operate", "read") for who in ("alice", "bob"))
    guarded = settings.model_copy(update={"tokens": tokens.file})
    with called_in_process(guarded) as client:
        for who, header in (("alice", alice), ("bob", bob)):
            client.put(f"/v1/streams/{who}/orders", json={}, headers=header).raise_for_status()
        (shown,) = client.get("/", headers=bob).json()["streams"]
        assert shown["stream"] == "bob/orders"
        assert client.get("/").json()["streams"] == []
        assert "orders" not in client.get("/", headers=HTML).text
        wrong = {"authorization": "Bearer tg_no"}
        assert client.get("/", headers=wrong).json()["streams"] == []


def test_the_first_hundred_streams_are_named(settings: ServeSettings) -> None:
    with called_in_process(settings) as client:
        for number in range(101):
            client.put(f"/v1/streams/many/s{number:03}", json={"segments": 1})
        page = client.get("/").json()
        assert (len(page["streams"]), page["more"]) == (100, True)
        assert "These are the first" in client.get("/", headers=HTML).text
