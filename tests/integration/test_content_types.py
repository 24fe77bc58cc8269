"""A body says what it is, so that no page of another site can have a browser send it unasked."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from controller.http.examples import EXAMPLES, Example
from tests.conftest import NewServer
from tests.integration.problems import EMBEDDED, EVENTS, NOTE, ONE, asked, check_problem
from tidegauge.wire.events import ARROW, NDJSON


@pytest.fixture(scope="module")
def client(new_server: NewServer) -> Iterator[httpx.Client]:
    with new_server() as server, asked(server) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (NOTE, "application/json"),
        ("/v1/note-times", "application/json"),
        (f"{ONE}/writers/w/register", "application/json"),
        (f"{EMBEDDED}/events", NDJSON),
        (EVENTS, ARROW),
    ],
)
@pytest.mark.parametrize("given", ["text/plain", "application/x-json", "", "*/*"])
def test_another_content_type_is_refused(
    client: httpx.Client, path: str, expected: str, given: str
) -> None:
    headers = {"content-type": given, "tidegauge-writer": "w", "tidegauge-sequence": "1"}
    document = check_problem(
        client.post(path, content=b"time=1", headers=headers), 415, "unsupported_media_type"
    )
    assert (document["content_type"], document["expected"]) == (given, expected)


@pytest.mark.parametrize("given", [None, "", "text/plain", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize(
    "call",
    sorted(
        {f"{one.method} {one.url}" for one in EXAMPLES if isinstance(one.body, dict)}
        | {
            "POST /v1/streams/a/none/writers/w/note-time",
            "POST /v1/streams/a/b/writers/w/leave",
        }
    ),
)
def test_every_call_that_takes_json_wants_a_body_to_say_so(
    client: httpx.Client, call: str, given: str | None
) -> None:
    method, url = call.split()
    headers = {} if given is None else {"content-type": given}
    answer = client.request(method, url, content=b"{}", headers=headers)
    document = check_problem(answer, 415, "unsupported_media_type")
    assert (document["content_type"], document["expected"]) == (given or "", "application/json")
    assert "send the header `Content-Type: application/json`" in document["detail"]


@pytest.mark.parametrize(
    "encodings", [["gzip"], ["gzip", "identity"], ["identity", "GZIP"], ["identity", ""]]
)
@pytest.mark.parametrize(
    "example", [one for one in EXAMPLES if one.body is not None], ids=lambda one: one.call
)
def test_no_call_takes_a_compressed_body(
    client: httpx.Client, example: Example, encodings: list[str]
) -> None:
    body = example.body if isinstance(example.body, bytes) else b"{}"
    is_compressed = encodings != ["identity", ""]
    content = gzip.compress(body) if is_compressed else body
    headers = {"Content-Type": "application/json", **example.headers}
    coded = [*headers.items(), *(("Content-Encoding", one) for one in encodings)]
    if example.url.endswith("/events"):
        example = replace(
            example, path={**example.path, "scope": "tests", "stream": "embedded"}
        )
    answer = client.request(example.method, example.url, content=content, headers=coded)
    if not is_compressed:
        assert answer.status_code != 415
        return
    document = check_problem(answer, 415, "unsupported_content_encoding")
    assert document["content_encoding"].lower() == "gzip"
    assert "send the body as it is" in document["detail"]
    assert answer.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("call", "status"), [("register", 200), ("leave", 409), ("note-time", 422)]
)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "application/json"},
        {"content-type": "application/json", "sec-fetch-site": "cross-site"},
        {"origin": "https://gauge.example", "sec-fetch-site": "same-origin"},
    ],
)
def test_a_call_without_a_body_need_not_say_what_it_is(
    client: httpx.Client, call: str, status: int, headers: dict[str, str]
) -> None:
    answer = client.post(f"{ONE}/writers/bodiless/{call}", headers=headers)
    assert answer.status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"},
        {"content-type": "multipart/form-data; boundary=x", "origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("body", [b"", b"a=b"])
@pytest.mark.parametrize(
    "path",
    [
        f"{ONE}/seal",
        f"{ONE}/writers/w/register",
        f"{ONE}/writers/w/leave",
        f"{ONE}/writers/w/expire",
        "/v1/reader-groups/tests/g/readers/r",
    ],
)
def test_what_a_page_of_another_site_lets_a_browser_send_unasked_is_refused(
    client: httpx.Client, path: str, body: bytes, headers: dict[str, str]
) -> None:
    answer = client.post(path, content=body, headers=headers)
    document = check_problem(answer, 415, "unsupported_media_type")
    assert document["expected"] == "application/json"


@pytest.mark.parametrize("given", ["application/json; charset=utf-8", "Application/JSON"])
@pytest.mark.parametrize("path", [NOTE, f"{ONE}/writers/other/register"])
def test_a_content_type_may_be_written_in_other_ways(
    client: httpx.Client, path: str, given: str
) -> None:
    position: dict[str, Any] = {"position": {}} if path == NOTE else {}
    body = {"time": 1_700_000_000_000} | position
    answer = client.post(path, content=json.dumps(body), headers={"content-type": given})
    assert answer.status_code == 200
