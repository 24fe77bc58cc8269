"""A body says what it is, so that no page of another site can have a browser send it unasked."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from controller.http.examples import EXAMPLES
from tests.conftest import NewServer
from tests.integration.problems import EMBEDDED, EVENTS, NOTE, ONE, asked, check_problem
from tidegauge.wire.events import ARROW, NDJSON

pytestmark = pytest.mark.only_on("sqlite", "requests are read before any database")


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
@pytest.mark.parametrize("given", ["text/plain", ""])
def test_another_content_type_is_refused(
    client: httpx.Client, path: str, expected: str, given: str
) -> None:
    headers = {"content-type": given, "tidegauge-writer": "w", "tidegauge-sequence": "1"}
    document = check_problem(
        client.post(path, content=b"time=1", headers=headers), 415, "unsupported_media_type"
    )
    assert (document["content_type"], document["expected"]) == (given, expected)


def test_every_call_that_takes_json_wants_a_body_to_say_so(client: httpx.Client) -> None:
    calls = {f"{one.method} {one.url}" for one in EXAMPLES if isinstance(one.body, dict)}
    for call in sorted(calls | {f"POST {ONE}/writers/w/leave"}):
        method, url = call.split()
        answer = client.request(method, url, content=b"{}")
        document = check_problem(answer, 415, "unsupported_media_type")
        assert (document["content_type"], document["expected"]) == ("", "application/json"), (
            call
        )
        assert "send the header `Content-Type: application/json`" in document["detail"]


def test_no_call_takes_a_compressed_body(client: httpx.Client) -> None:
    for example in (one for one in EXAMPLES if one.body is not None):
        body = example.body if isinstance(example.body, bytes) else b"{}"
        given = {"Content-Type": "application/json", **example.headers}
        headers = given | {"Content-Encoding": "gzip"}
        url = example.url.replace("flights/departures", "tests/embedded")
        answer = client.request(
            example.method,
            url,
            content=gzip.compress(body),
            headers=headers,
            params={name: one for name, one in example.query.items() if name == "writer"},
        )
        document = check_problem(answer, 415, "unsupported_content_encoding")
        assert document["content_encoding"] == "gzip", example.call
        assert "send the body as it is" in document["detail"]
        assert answer.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("encodings", "is_taken"),
    [(["gzip", "identity"], False), (["identity", "GZIP"], False), (["identity", ""], True)],
)
def test_every_value_that_says_how_a_body_is_coded_counts(
    client: httpx.Client, encodings: list[str], *, is_taken: bool
) -> None:
    headers = [("content-type", "application/json")]
    headers += [("content-encoding", one) for one in encodings]
    answer = client.post(f"{ONE}/writers/coded/register", content=b"{}", headers=headers)
    assert (answer.status_code != 415) is is_taken


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
    client: httpx.Client, headers: dict[str, str]
) -> None:
    for call, status in (("register", 200), ("leave", 409), ("note-time", 422)):
        answer = client.post(f"{ONE}/writers/bodiless/{call}", headers=headers)
        assert answer.status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_what_a_page_of_another_site_lets_a_browser_send_unasked_is_refused(
    client: httpx.Client, headers: dict[str, str]
) -> None:
    group = "/v1/reader-groups/tests/g/readers/r"
    calls = [f"{ONE}/seal", group, *(f"{ONE}/writers/w/{one}" for one in ("leave", "expire"))]
    for path in calls:
        for body in (b"", b"a=b"):
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
