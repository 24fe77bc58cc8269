"""Requests are read strictly: what is ambiguous or larger than it need be is refused, as JSON."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyarrow import ipc

from tests.conftest import NewServer
from tests.integration.problems import EMBEDDED, EVENTS, NOTE, ONE, asked, check_problem
from tests.tokens import Tokens
from tidegauge.wire.columns import EVENT_SCHEMA
from tidegauge.wire.events import ARROW, NDJSON

pytestmark = pytest.mark.only_on("sqlite", "requests are read before any database")

JSON = {"content-type": "application/json"}
LINES = {"content-type": NDJSON}
TIME = 1_700_000_000_000
END_OF_TIME = 2**63 - 1


@pytest.fixture(scope="module")
def client(new_server: NewServer) -> Iterator[httpx.Client]:
    with new_server() as server, asked(server) as client:
        yield client


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (f"POST {NOTE}", '{"time": null, "position": {}}'),
        (f"POST {NOTE}", '{"time": true, "position": {}}'),
        (f"POST {NOTE}", '{"time": {"x": [1, null]}, "position": {}}'),
        (f"POST {NOTE}", '{"time": 1, "position": {"0": null}}'),
        (f"POST {NOTE}", '{"time": 1, "position": [true, {"x": 1}]}'),
        (f"POST {NOTE}", '{"time": 1, "position": {}, "incarnation": false}'),
        (f"POST {NOTE}", "null"),
        (f"POST {NOTE}", '{"time": ' + "1" * 5_000 + ', "position": {}}'),
        (f"POST {ONE}/writers/w/leave", '{"time": true}'),
        (f"POST {ONE}/writers/w/leave", "[true]"),
        (f"POST {ONE}/seal", '{"position": true}'),
        ("PUT /v1/streams/tests/two", '{"segments": true}'),
        ("PUT /v1/streams/tests/two", "[null]"),
        ("POST /v1/note-times", "true"),
        ("POST /v1/note-times", '{"reports": {"x": null}}'),
        ("PUT /v1/reader-groups/tests/g", '{"streams": {"x": true}}'),
    ],
)
def test_a_refusal_shows_json_and_never_python(
    client: httpx.Client, call: str, body: str
) -> None:
    answer = client.request(*call.split(), content=body, headers=JSON)
    detail = check_problem(answer, 422, "invalid_request")["detail"]
    assert re.search(r"None|True|False|'x'|dictionary|sys\.|Traceback", detail) is None, detail


@pytest.mark.parametrize(
    "line", ['{"key": null}', '{"key": true}', '{"key": "k", "value": {"x": null}}']
)
def test_a_refused_line_shows_json_and_never_python(client: httpx.Client, line: str) -> None:
    answer = client.post(f"{EMBEDDED}/events", content=line, headers=LINES)
    detail = check_problem(answer, 422, "invalid_request")["detail"]
    assert re.search(r"None|True|'x'", detail) is None, detail


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (f"POST {NOTE}", '{"time": 1, "time": 2, "position": {}}'),
        (f"POST {NOTE}", '{"time": 1, "position": {"0": 1, "0": 2}}'),
        (f"POST {NOTE}", '{"time": "1", "position": {}, "position": {"0": 1}}'),
        (f"POST {ONE}/writers/w/leave", '{"time": 1, "time": 2, "position": {}}'),
        ("PUT /v1/streams/tests/two", '{"segments": 1, "segments": 2}'),
        ("POST /v1/note-times", '{"reports": [], "reports": []}'),
    ],
)
def test_a_key_that_is_named_twice_is_refused(
    client: httpx.Client, call: str, body: str
) -> None:
    answer = client.request(*call.split(), content=body, headers=JSON)
    document = check_problem(answer, 422, "invalid_request")
    assert "twice in one object; send it once" in document["detail"]


def test_of_many_reports_the_one_that_names_a_key_twice_is_refused(
    client: httpx.Client,
) -> None:
    good = f'{{"stream": "tests/one", "writer": "v", "time": {TIME}, "position": {{}}}}'
    twice = good.replace('"position": {}', '"position": {"0": 1, "0": 2}')
    answer = client.post(
        "/v1/note-times", content=f'{{"reports": [{good}, {twice}]}}', headers=JSON
    )
    first, second = answer.raise_for_status().json()["results"]
    assert first["status"] == 200
    assert (second["code"], "twice" in second["detail"]) == ("invalid_request", True)


@pytest.mark.parametrize("time", ["1", '"2024-01-01T00:00:00Z"'])
def test_a_line_that_names_a_key_twice_is_refused(client: httpx.Client, time: str) -> None:
    good = f'{{"key": "a:b", "event_time": {time}, "value": "v"}}\n'
    assert client.post(f"{EMBEDDED}/events", content=good, headers=LINES).is_success
    twice = good.replace('"value"', '"key": "k", "value"')
    answer = client.post(f"{EMBEDDED}/events", content=good + twice, headers=LINES)
    document = check_problem(answer, 422, "invalid_request")
    assert document["errors"][0]["field"] == "line 2"


def test_an_event_at_the_end_of_time_is_refused_as_a_note_is(client: httpx.Client) -> None:
    line = f'{{"key": "k", "event_time": {END_OF_TIME}, "value": "v"}}'
    answer = client.post(f"{EMBEDDED}/events", content=line, headers=LINES)
    assert "seal the stream" in check_problem(answer, 422, "invalid_request")["detail"]
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, EVENT_SCHEMA) as stream:
        row = {"key": "k", "event_time": END_OF_TIME, "value": b"v"}
        stream.write_batch(pa.RecordBatch.from_pylist([row], EVENT_SCHEMA))
    headers = {"content-type": ARROW, "tidegauge-writer": "w", "tidegauge-sequence": "1"}
    answer = client.post(EVENTS, content=sink.getvalue().to_pybytes(), headers=headers)
    assert "seal the stream" in check_problem(answer, 422, "invalid_request")["detail"]


def test_writers_in_any_of_several_states_are_listed(client: httpx.Client) -> None:
    stream = "/v1/streams/tests/states"
    client.put(stream, json={"log": "external", "segments": 1}).raise_for_status()
    for writer in ("joining", "active", "left"):
        client.post(f"{stream}/writers/{writer}/register").raise_for_status()
    for writer in ("active", "left"):
        report = {"time": TIME, "position": {}, "incarnation": 1}
        client.post(f"{stream}/writers/{writer}/note-time", json=report).raise_for_status()
    client.post(f"{stream}/writers/left/leave", json={"incarnation": 1}).raise_for_status()

    def listed(query: str) -> list[str]:
        answer = client.get(f"{stream}/writers{query}").raise_for_status()
        return [one["writer"] for one in answer.json()["writers"]]

    assert listed("?state=left&state=joining") == ["joining", "left"]
    assert listed("?state=active") == ["active"]
    assert listed("") == ["active", "joining", "left"]


def test_how_far_a_writer_is_behind_fits_64_bits(client: httpx.Client) -> None:
    stream = "/v1/streams/tests/apart"
    settings = {"log": "external", "segments": 1, "max_future_skew_ms": None}
    client.put(stream, json=settings).raise_for_status()
    for writer, time in (("first", -(2**63)), ("last", END_OF_TIME - 1)):
        report = {"time": time, "position": {}}
        client.post(f"{stream}/writers/{writer}/note-time", json=report).raise_for_status()
    first, last = client.get(f"{stream}/writers").json()["writers"]
    assert (first["behind_ms"], last["behind_ms"]) == (END_OF_TIME, 0)


def test_a_single_report_has_a_limit_of_its_own(client: httpx.Client) -> None:
    digits = '{"time": ' + "1" * 2**16 + ', "position": {}}'
    whole: Any = digits.encode()
    for content in (whole, iter([whole[:100], whole[100:]])):
        document = check_problem(
            client.post(NOTE, content=content, headers=JSON), 413, "body_too_large"
        )
        assert (document["limit_bytes"], document["setting"]) == (65_536, "max_report_bytes")
        assert "name only the segments that changed" in document["detail"]
    report = f'{{"stream": "tests/one", "writer": "w", {digits[1:]}'
    answer = client.post("/v1/note-times", content=f'{{"reports": [{report}]}}', headers=JSON)
    (refused,) = answer.raise_for_status().json()["results"]
    assert (refused["code"], "max_report_bytes" in refused["detail"]) == (
        "invalid_request",
        True,
    )


def test_a_large_report_among_many_is_taken_if_it_is_plain(client: httpx.Client) -> None:
    stream = "/v1/streams/tests/wide"
    client.put(stream, json={"log": "external", "segments": 5_000}).raise_for_status()
    position = {str(number): TIME for number in range(5_000)}
    large = {"stream": "tests/wide", "writer": "w", "time": TIME, "position": position}
    text = {"stream": "tests/one", "writer": "v", "time": str(TIME + 9), "position": {}}
    assert len(json.dumps(large)) > 2**16
    answer = client.post("/v1/note-times", json={"reports": [large, text]})
    assert [one["status"] for one in answer.json()["results"]] == [200, 200]


LOOPBACK = ["localhost", "LOCALHOST:8470", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8470"]
OTHERS = [
    "evil.example",
    "evil.example:8470",
    "localhost.evil.example",
    "10.0.0.1",
    "[::2]",
    "",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_without_tokens_who_calls_by_a_name_of_this_machine_is_answered(
    client: httpx.Client, host: str
) -> None:
    assert client.get(ONE, headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", OTHERS)
@pytest.mark.parametrize("call", [f"DELETE {ONE}", f"POST {NOTE}", "GET /healthz"])
def test_without_tokens_a_rebound_name_is_refused(
    client: httpx.Client, call: str, host: str
) -> None:
    answer = client.request(*call.split(), headers={"host": host, **JSON})
    document = check_problem(answer, 421, "misdirected_request")
    assert document["host"] == host
    assert "call it so, or serve with --tokens FILE" in document["detail"]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "https://localhost", ""]
)
@pytest.mark.parametrize(
    "call", [f"POST {ONE}/seal", f"POST {ONE}/writers/w/register", f"POST {NOTE}", f"PUT {ONE}"]
)
def test_without_tokens_a_page_of_another_origin_changes_nothing(
    client: httpx.Client, call: str, origin: str
) -> None:
    answer = client.request(*call.split(), headers={"origin": origin})
    document = check_problem(answer, 403, "foreign_origin")
    assert document["origin"] == origin
    assert "serve with --tokens FILE" in document["detail"]


def test_without_tokens_a_page_of_another_origin_may_ask_what_its_browser_will_not_show(
    client: httpx.Client,
) -> None:
    for method in ("GET", "HEAD"):
        answer = client.request(method, ONE, headers={"origin": "http://evil.example"})
        assert answer.status_code == 200


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_without_tokens_the_page_of_the_service_itself_is_answered(
    client: httpx.Client, scheme: str
) -> None:
    own = {"origin": f"{scheme}://{client.base_url.netloc.decode()}"}
    assert client.post(f"{ONE}/writers/own/register", headers=own).status_code == 200


@pytest.mark.parametrize("option", ["tokens", "insecure"])
def test_with_tokens_or_where_it_is_wanted_any_name_is_answered(
    new_server: NewServer, tmp_path: Any, option: str
) -> None:
    value: Any = Tokens(tmp_path).file if option == "tokens" else True
    with new_server(**{option: value}) as server:
        answer = httpx.get(f"{server.url}/healthz", headers={"host": "gauge.example"})
    assert answer.status_code == 200
