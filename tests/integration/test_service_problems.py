"""Every refusal is an RFC 9457 problem document with a stable code and what to do."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from controller.http.messages.problems import dump_problem
from tests.conftest import NewServer
from tests.integration.problems import EMBEDDED, EVENTS, NOTE, ONE, asked, check_problem
from tidegauge.errors import PROBLEMS, InvalidPositionError, problem_of
from tidegauge.wire.events import ARROW, NDJSON

pytestmark = pytest.mark.only_on("sqlite", "requests are read before any database")

JSON = {"content-type": "application/json"}
INVALID = "invalid_request"
LIMIT = 100_000
LONG = "x" * 50_000


@pytest.fixture(scope="module")
def client(new_server: NewServer) -> Iterator[httpx.Client]:
    with (
        new_server(max_body_bytes=LIMIT, max_report_bytes=LIMIT) as server,
        asked(server) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/streams/tests/none", 404, "unknown_stream"),
        ("POST", "/v1/streams/tests/none/writers/w/register", 404, "unknown_stream"),
        ("POST", "/v1/streams/tests/none/writers/w/note-time", 404, "unknown_stream"),
        ("GET", "/v1/streams/tests/none/marks", 404, "unknown_stream"),
        ("DELETE", "/v1/streams/tests/none", 404, "unknown_stream"),
        ("POST", f"{ONE}/writers/none/leave", 404, "unknown_writer"),
        ("POST", f"{ONE}/writers/none/expire", 404, "unknown_writer"),
        ("GET", "/v2/streams", 404, "not_found"),
        ("GET", "/redoc", 404, "not_found"),
        ("GET", "/docs/assets/none.js", 404, "not_found"),
        ("POST", "/", 405, "method_not_allowed"),
        ("GET", "/?unknown=1", 422, "invalid_request"),
        ("GET", f"{ONE}/", 404, "not_found"),
        ("POST", f"{NOTE}/", 404, "not_found"),
        ("POST", "/v1/note-times/", 404, "not_found"),
        ("GET", "/v1/streams/", 404, "not_found"),
        ("GET", f"{EVENTS}/", 404, "not_found"),
        ("GET", "/healthz/", 404, "not_found"),
        ("GET", "/docs/", 404, "not_found"),
        ("GET", "/v1/streams//one", 404, "not_found"),
        ("GET", "/v1/streams/te%2Fsts/one", 404, "not_found"),
        ("POST", "/v2/streams/tests/one/writers/w/note-time", 404, "not_found"),
        ("POST", f"{ONE}/readers/w/note-time", 404, "not_found"),
        ("POST", "/v1/streams//one/writers/w/note-time", 404, "not_found"),
        ("POST", "/v1/reader-groups/tests/one/readers/r/note-time", 404, "not_found"),
        ("GET", f"{EMBEDDED}/segments/7/events", 404, "unknown_segment"),
        ("GET", "/v1/reader-groups/tests/none", 404, "unknown_group"),
        ("POST", f"{ONE}/shrink", 404, "not_found"),
        ("POST", "/v1/streams", 405, "method_not_allowed"),
        ("GET", NOTE, 405, "method_not_allowed"),
        ("PATCH", "/v1/note-times", 405, "method_not_allowed"),
        ("PUT", f"{ONE}/marks", 405, "method_not_allowed"),
        ("GET", "/v1/streams/tests/-bad", 422, "invalid_request"),
        ("GET", "/v1/streams/t%20t/one", 422, "invalid_request"),
        ("GET", "/v1/streams/t%00t/one", 422, "invalid_request"),
        ("GET", "/v1/streams/tests/one%0A", 422, "invalid_request"),
        ("DELETE", "/v1/reader-groups/tests/%00", 422, "invalid_request"),
        ("GET", f"/v1/streams/tests/{'x' * 256}", 422, "invalid_request"),
        ("POST", "/v1/streams/tests/one/writers/%C3%A4/note-time", 422, "invalid_request"),
        ("POST", "/v1/streams/tests/one/writers/_w/register", 422, "invalid_request"),
        ("GET", f"{ONE}/marks?after=-1", 422, "invalid_request"),
        ("GET", f"{ONE}/marks?after=x", 422, "invalid_request"),
        ("GET", f"{ONE}/marks?wait_ms=30001", 422, "invalid_request"),
        ("GET", f"{ONE}/marks?limit=0", 422, "invalid_request"),
        ("GET", f"{ONE}/marks?limit=1001", 422, "invalid_request"),
        ("GET", f"{ONE}/marks?unknown=1", 422, "invalid_request"),
        ("POST", f"{NOTE}?unknown=1", 422, "invalid_request"),
        ("POST", f"{NOTE}?stream_ID=1", 422, "invalid_request"),
        ("POST", "/v1/note-times?unknown=1", 422, "invalid_request"),
        ("POST", f"{ONE}/writers/w/register?unknown=1", 422, "invalid_request"),
        ("POST", f"{ONE}/seal?unknown", 422, "invalid_request"),
        ("DELETE", f"{ONE}?unknown=1", 422, "invalid_request"),
        ("GET", f"{EVENTS}?unknown=1", 422, "invalid_request"),
        ("GET", "/v1/reader-groups?unknown=1", 422, "invalid_request"),
        ("GET", "/healthz?unknown=1", 422, "invalid_request"),
        ("GET", "/metrics?unknown=1", 422, "invalid_request"),
        ("GET", "/v1/streams?cursor=nonsense", 422, "invalid_request"),
        ("GET", "/v1/streams?cursor=%C3%A4", 422, "invalid_request"),
        ("GET", "/v1/streams?cursor=b25l", 422, "invalid_request"),
        ("GET", "/v1/reader-groups?cursor=b25l", 422, "invalid_request"),
        ("GET", f"{ONE}/writers?cursor=L29uZQ==", 422, "invalid_request"),
        ("GET", f"{ONE}/writers?state=sleeping", 422, "invalid_request"),
        ("GET", f"{ONE}/marks/at", 422, "invalid_request"),
        ("GET", f"{ONE}/marks/at?time=1&position=0:1", 422, "invalid_request"),
        ("GET", f"{ONE}/marks/at?time=1.5", 422, "invalid_request"),
        ("GET", f"{ONE}/marks/at?position=0-1", 422, "invalid_request"),
        ("GET", f"{ONE}/marks/at?position=7:1", 409, "invalid_position"),
        ("GET", f"{ONE}/marks/at?position=0:-1", 409, "invalid_position"),
        ("GET", f"{ONE}/tail?after=x", 422, "invalid_request"),
        ("GET", f"{EMBEDDED}/tail?after=0:-1", 409, "invalid_position"),
        ("GET", f"{ONE}?stream_id=another", 409, "stream_replaced"),
        ("POST", f"{NOTE}?stream_id=another", 409, "stream_replaced"),
    ],
)
def test_what_cannot_be_asked(
    client: httpx.Client, method: str, path: str, status: int, code: str
) -> None:
    body = {"json": {"time": 1, "position": {}}} if method == "POST" else {}
    check_problem(client.request(method, path, **body), status, code)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("after=-1", "after: Input should be greater than or equal to 0, not -1"),
        ("limit=1001", "limit: Input should be less than or equal to 1000, not 1001"),
        ("wait_ms=30001", "wait_ms: Input should be less than or equal to 30000, not 30001"),
    ],
)
def test_what_is_out_of_bounds_is_named(client: httpx.Client, query: str, problem: str) -> None:
    answer = client.get(f"{ONE}/marks?{query}")
    assert answer.json()["detail"] == problem


@pytest.mark.parametrize(
    "time",
    [
        "1.5",
        "1e3",
        "1.0",
        "true",
        "null",
        "NaN",
        "Infinity",
        '"soon"',
        '"1.5"',
        '"2024-01-01T00:00:00"',
        "[1]",
        "9223372036854775808",
        "-9223372036854775809",
        '"9223372036854775808"',
        "1" + "0" * 5_000,
    ],
)
def test_a_time_that_is_no_64_bit_integer(client: httpx.Client, time: str) -> None:
    body = f'{{"time": {time}, "position": {{}}}}'
    many = f'{{"reports": [{{"stream": "tests/one", "writer": "w", {body[1:]}]}}'
    answer = client.post("/v1/note-times", content=many, headers=JSON)
    if time in {"NaN", "Infinity"}:
        check_problem(answer, 422, "invalid_request")
    else:
        (refused,) = answer.raise_for_status().json()["results"]
        assert refused["status"] == 422
        assert refused["errors"][0]["field"] in {"time", "body"}
    document = check_problem(
        client.post(NOTE, content=body, headers=JSON), 422, "invalid_request"
    )
    assert document["errors"][0]["field"] in {"time", "body"}
    if time != "null":
        leave = client.post(f"{ONE}/writers/w/leave", content=body, headers=JSON)
        check_problem(leave, 422, "invalid_request")


@pytest.mark.parametrize(
    "number", ["1.0", "1e2", "1_0", "%2B1", "%201", "nan", "true", "", "9223372036854775808"]
)
@pytest.mark.parametrize(
    "path",
    [
        f"{ONE}/marks?after=",
        f"{ONE}/marks?limit=",
        f"{ONE}/marks?wait_ms=",
        f"{ONE}/writers?limit=",
        f"{EMBEDDED}/tail?revision=",
        f"{EMBEDDED}/tail?after=0:",
        f"{EMBEDDED}/marks/at?time=",
        f"{EMBEDDED}/marks/at?position=0:",
        f"{EVENTS}?start=",
        f"{EVENTS}?end=",
    ],
)
def test_a_query_that_takes_a_64_bit_integer(
    client: httpx.Client, path: str, number: str
) -> None:
    check_problem(client.get(path + number), 422, "invalid_request")


@pytest.mark.parametrize("number", ["1.0", "1e2", "1_0", "+1", "-1", "9223372036854775808"])
@pytest.mark.parametrize("header", ["tidegauge-sequence", "tidegauge-incarnation"])
def test_a_header_that_takes_a_64_bit_integer(
    client: httpx.Client, header: str, number: str
) -> None:
    headers = {"content-type": ARROW, "tidegauge-writer": "w", "tidegauge-sequence": "1"}
    answer = client.post(EVENTS, content=b"", headers=headers | {header: number})
    document = check_problem(answer, 422, "invalid_request")
    assert [one["field"] for one in document["errors"]] == [header]


@pytest.mark.parametrize("incarnation", ["-1", '"-1"', "-9223372036854775808", "1.0", "true"])
def test_an_incarnation_that_cannot_be(client: httpx.Client, incarnation: str) -> None:
    body = f'{{"time": 1700000000000, "position": {{}}, "incarnation": {incarnation}}}'
    for call in (NOTE, f"{ONE}/writers/w/leave"):
        document = check_problem(client.post(call, content=body, headers=JSON), 422, INVALID)
        assert [one["field"] for one in document["errors"]] == ["incarnation"]
    many = f'{{"reports": [{{"stream": "tests/one", "writer": "w", {body[1:]}]}}'
    answer = client.post("/v1/note-times", content=many, headers=JSON)
    (refused,) = answer.raise_for_status().json()["results"]
    assert (refused["status"], refused["code"]) == (422, INVALID)
    query = {"writer": "w", "note_time": "1700000000000", "incarnation": incarnation.strip('"')}
    content, headers = b'{"key": "k", "value": "v"}', {"content-type": NDJSON}
    lines = client.post(f"{EMBEDDED}/events", params=query, content=content, headers=headers)
    check_problem(lines, 422, INVALID)


@pytest.mark.parametrize(
    "position",
    [
        '{"0": 1.0}',
        '{"0": 1e2}',
        '{"0": NaN}',
        '{"0": true}',
        '{"0": 1.5}',
        '{"x": 1}',
        '{"0": null}',
        "[0, 1]",
        '"0:1"',
        '{"0": 9223372036854775808}',
        '{"9223372036854775808": 1}',
        '{"0": 1, "00": 2}',
    ],
)
def test_a_position_that_cannot_be(client: httpx.Client, position: str) -> None:
    body = f'{{"time": 1700000000000, "position": {position}}}'
    check_problem(client.post(NOTE, content=body, headers=JSON), 422, "invalid_request")


@pytest.mark.parametrize(
    "body", ["", "{", "[]", '"x"', "\x00", '{"time": 1} x', "\udcff", "[" * 50_000]
)
@pytest.mark.parametrize(
    "call", [("POST", NOTE), ("POST", "/v1/note-times"), ("PUT", "/v1/streams/tests/two")]
)
def test_a_body_that_is_no_object(
    client: httpx.Client, call: tuple[str, str], body: str
) -> None:
    content = body.encode("utf-8", "surrogateescape")
    check_problem(client.request(*call, content=content, headers=JSON), 422, "invalid_request")


def test_many_reports_that_are_nested_too_deeply(client: httpx.Client) -> None:
    content = '{"reports": [' + "[" * 50_000
    check_problem(
        client.post("/v1/note-times", content=content, headers=JSON), 422, "invalid_request"
    )


@pytest.mark.parametrize(
    "body",
    [
        {"time": "9" * 50_000, "position": {}},
        {"time": 1, "position": {"9" * 50_000: 1}},
        {"time": 1, "position": {str(number): "x" for number in range(5_000)}},
        {"time": 1, "position": {str(number): 1 for number in range(5_000)} | {"00": 1}},
        {f"unknown-{number}": 1 for number in range(4_000)},
        {"x" * 50_000: 1},
    ],
)
def test_a_refusal_is_short_however_long_the_request(
    client: httpx.Client, body: dict[str, Any]
) -> None:
    answer = client.post(NOTE, json=body)
    document = check_problem(answer, 422, "invalid_request")
    assert len(answer.content) < 20_000
    assert all(one["message"] for one in document["errors"])


@pytest.mark.parametrize(
    ("call", "headers", "status", "code"),
    [
        (f"GET {ONE}?stream_id=...", {}, 409, "stream_replaced"),
        (f"POST {NOTE}?stream_id=...", JSON, 409, "stream_replaced"),
        ("PUT /v1/streams/tests/.../marks", {}, 405, "method_not_allowed"),
        (f"GET {ONE}/writers/.../note-time", {}, 405, "method_not_allowed"),
        (f"POST {NOTE}", {"content-type": LONG}, 415, "unsupported_media_type"),
        (f"POST {ONE}/seal", {"content-type": LONG}, 415, "unsupported_media_type"),
        (
            f"POST {NOTE}",
            JSON | {"content-encoding": LONG},
            415,
            "unsupported_content_encoding",
        ),
    ],
)
def test_a_refusal_is_short_however_long_the_head(
    client: httpx.Client, call: str, headers: dict[str, str], status: int, code: str
) -> None:
    method, path = call.replace("...", LONG).split()
    content = b'{"time": 1, "position": {}}' if method == "POST" else b""
    answer = client.request(method, path, content=content, headers=headers)
    document = check_problem(answer, status, code)
    assert len(answer.content) < 5_000
    assert problem_of(document).document() == document


def test_a_refusal_of_many_reports_is_short_however_long_one_is(client: httpx.Client) -> None:
    report = {"stream": "tests/one", "writer": "w", "time": 1, "position": {}}
    answer = client.post("/v1/note-times", json={"reports": [report | {"stream_id": LONG}]})
    (refused,) = answer.raise_for_status().json()["results"]
    assert (refused["status"], refused["code"]) == (409, "stream_replaced")
    assert len(answer.content) < 5_000


def test_a_path_that_is_longer_than_any(client: httpx.Client) -> None:
    target = {
        "target": b"/v1/streams/" + b"x" * 70_000 + b"?after=0"
    }  # httpx takes no such URL
    answer = client.get("/", extensions=target)
    check_problem(answer, 404, "not_found")
    assert len(answer.content) < 20_000
    assert client.get(ONE).status_code == 200


@pytest.mark.parametrize(
    ("call", "body"),
    [
        (("POST", NOTE), {"time": 1, "positon": {"0": 1}}),
        (("POST", f"{ONE}/writers/w/register"), {"times": 1}),
        (("POST", f"{ONE}/writers/w/leave"), {"tiem": 1}),
        (("PUT", "/v1/streams/tests/two"), {"segment": 4}),
        (("POST", "/v1/note-times"), {"report": []}),
        (("POST", f"{ONE}/seal"), {"lengths": {}}),
        (("PUT", "/v1/reader-groups/tests/g"), {"streams": ["tests/one"], "strat": "latest"}),
    ],
)
def test_an_unknown_field_is_refused_and_named(
    client: httpx.Client, call: tuple[str, str], body: dict[str, Any]
) -> None:
    document = check_problem(client.request(*call, json=body), 422, "invalid_request")
    assert all(one["field"] and one["message"] for one in document["errors"])


@pytest.mark.parametrize(
    "settings",
    [
        {"segments": 0},
        {"segments": 10_001},
        {"segments": 1.5},
        {"segments": 1.0},
        {"segments": True},
        {"mark_interval_ms": 1e3},
        {"mark_interval_ms": 2**63},
        {"log": "kafka"},
        {"scaling": "auto"},
        {"aggregation_timeout_ms": 0},
        {"aggregation_timeout_ms": -1},
        {"mark_interval_ms": -1},
        {"mark_interval_ms": None},
        {"min_writers": None},
        {"max_future_skew_ms": "soon"},
        {"max_segments": 0},
    ],
)
def test_a_setting_that_cannot_be(client: httpx.Client, settings: dict[str, Any]) -> None:
    check_problem(client.put("/v1/streams/tests/two", json=settings), 422, "invalid_request")


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/streams", "GET, HEAD"),
        (ONE, "DELETE, GET, HEAD, PATCH, PUT"),
        (NOTE, "POST"),
        ("/v1/note-times", "POST"),
        (EVENTS, "GET, HEAD, POST"),
        ("/v1/reader-groups/tests/g/state", "GET, HEAD, PUT"),
        ("/v1/reader-groups/tests/g/readers/r", "DELETE, POST"),
    ],
)
def test_another_method_is_refused_with_all_that_are_allowed(
    client: httpx.Client, path: str, methods: str
) -> None:
    answer = client.options(path)
    check_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == methods


def test_an_empty_query_is_none(client: httpx.Client) -> None:
    report = {"time": 1_700_000_000_000, "position": {}}
    assert client.post(f"{NOTE}?&", json=report).status_code == 200
    assert client.post("/v1/note-times?&", json={"reports": []}).status_code == 200
    assert client.get(f"{ONE}?&").status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/streams/-bad/one", "/v1/streams/-bad/one/writers/w/note-time"]
)
def test_a_bad_name_is_told_the_rule(client: httpx.Client, path: str) -> None:
    answer = client.post(path) if path.endswith("note-time") else client.get(path)
    assert "'-bad' is no valid name; use ASCII letters" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path", [NOTE, "/v1/note-times", f"{ONE}/writers/w/register", f"{EMBEDDED}/events", EVENTS]
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_is_refused(client: httpx.Client, path: str, *, chunked: bool) -> None:
    body = b'{"time": 1, "position": {' + b" " * LIMIT + b"}}"
    content: Any = iter([body[:5_000], body[5_000:]]) if chunked else body
    content_type = {EVENTS: ARROW, f"{EMBEDDED}/events": NDJSON}.get(path, JSON["content-type"])
    headers = {"content-type": content_type, "tidegauge-writer": "w", "tidegauge-sequence": "1"}
    document = check_problem(
        client.post(path, content=content, headers=headers), 413, "body_too_large"
    )
    assert document["limit_bytes"] == LIMIT


def test_a_report_that_conflicts_tells_the_stored_values(client: httpx.Client) -> None:
    back = client.post(NOTE, json={"time": 1_699_999_999_999, "position": {}})
    document = check_problem(back, 409, "invalid_time")
    assert document["stored_time"] == 1_700_000_000_000
    less = client.post(NOTE, json={"time": 1_700_000_000_001, "position": {"0": 39}})
    assert check_problem(less, 409, "invalid_position")["stored_position"] == {"0": 40}
    future = client.post(NOTE, json={"time": 1_700_000_000_000_000, "position": {}})
    assert check_problem(future, 409, "time_in_future")["max_future_skew_ms"] == 3_600_000


def test_an_external_stream_needs_a_position(client: httpx.Client) -> None:
    document = check_problem(client.post(NOTE, json={"time": 1}), 422, "invalid_request")
    assert document["errors"][0]["field"] == "position"


def test_a_position_comes_back_from_a_document_as_it_was() -> None:
    refused = InvalidPositionError(0, 3, "nobody has read it", {0: 1, 7: 40})
    read_back = problem_of(json.loads(dump_problem(refused)))
    assert isinstance(read_back, InvalidPositionError)
    assert read_back.stored_position == {0: 1, 7: 40}
    assert str(read_back) == str(refused)


def test_every_code_has_one_status_and_one_class() -> None:
    statuses = {code: cls.status for code, cls in PROBLEMS.items()}
    assert len(set(PROBLEMS.values())) == len(PROBLEMS)
    assert statuses["invalid_request"] == 422
    assert statuses["unavailable"] == 503
    assert all(400 <= status < 600 for status in statuses.values())
    assert all(re.fullmatch(r"[a-z0-9_]+", code) for code in statuses)
