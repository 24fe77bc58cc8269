"""HEAD is answered like GET, without the body, as load balancers and HTTP expect."""

import asyncio
from typing import Any

import httpx
import pytest

from controller.configuration import ServeSettings
from controller.http.examples import EXAMPLES, Example
from controller.streams import reading
from tests.integration.in_process import in_process
from tests.integration.story import StoryClient
from tests.server import ServerProcess
from tidegauge.wire.events import NDJSON


def test_every_call_that_reads_answers_head_like_get(server: ServerProcess) -> None:
    with StoryClient(base_url=server.url, timeout=20) as client:
        for example in EXAMPLES:
            answer = _play(client, example.method, example)
            if example.method == "GET":
                head = _play(client, "HEAD", example)
                assert head.content == b""
                assert head.status_code == answer.status_code == example.status
                assert head.headers["content-type"] == answer.headers["content-type"]
                assert head.headers.get("etag") == answer.headers.get("etag")


def _play(client: httpx.Client, method: str, example: Example) -> httpx.Response:
    query = {name: value for name, value in example.query.items() if name != "stream_id"}
    content: Any = {"json": example.body} if isinstance(example.body, dict) else {}
    if isinstance(example.body, (str, bytes)):
        content = {"content": example.body}
    return client.request(
        method, example.url, params=query, headers=dict(example.headers), **content
    )


def test_head_reads_no_events_that_nobody_sees(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, read_page = [], reading._page

    async def page(*given: Any) -> Any:
        pages.append(given)
        return await read_page(*given)

    async def scene() -> None:
        stream = "/v1/streams/tests/log"
        async with in_process(ServeSettings(database_url=database_url)) as (_, client):
            (await client.put(stream, json={"segments": 1})).raise_for_status()
            line, headers = '{"key": "k", "value": "v"}', {"content-type": NDJSON}
            answer = await client.post(f"{stream}/events", content=line, headers=headers)
            answer.raise_for_status()
            head = await client.head(f"{stream}/segments/0/events")
            assert head.headers["tidegauge-first-offset"] == "0"
            assert len(pages) == 1
            (await client.get(f"{stream}/segments/0/events")).raise_for_status()
            assert len(pages) == 3

    monkeypatch.setattr(reading, "_page", page)
    asyncio.run(scene())


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/healthz",
        "/readyz",
        "/docs",
        "/docs/assets/swagger-ui.css",
        "/openapi.json",
        "/v1/streams",
        "/v2",
        "/v1/scope/x",
    ],
)
def test_head_announces_what_get_would_bring(shared_server: ServerProcess, path: str) -> None:
    with httpx.Client(base_url=shared_server.url) as client:
        head, get = client.head(path), client.get(path)
    assert head.status_code == get.status_code
    assert head.headers["content-length"] == get.headers["content-length"]
    assert head.content == b""


@pytest.mark.parametrize("path", ["/v1/note-times", "/v1/streams/a/b/writers/w/note-time"])
def test_head_is_refused_where_get_is(shared_server: ServerProcess, path: str) -> None:
    head = httpx.head(shared_server.url + path)
    assert (head.status_code, head.headers["allow"]) == (405, "POST")


def test_a_refusal_of_a_method_names_head_next_to_get(shared_server: ServerProcess) -> None:
    refused = httpx.put(f"{shared_server.url}/v1/streams/a/b/marks")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def test_head_is_timed_with_the_route(server: ServerProcess) -> None:
    httpx.head(f"{server.url}/v1/streams")
    counted = 'request_duration_seconds_count{route="/v1/streams",status="2xx"} 1.0\n'
    assert counted in server.metrics()
