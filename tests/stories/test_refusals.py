"""Every refusal is an RFC 9457 problem document with a stable code and what to do.

Requests are read strictly: what is ambiguous, or larger than it need be, is refused. A body says
what it is, so that no page of another site can have a browser send it unasked.
"""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.configuration import ServeSettings
from controller.http.examples import EXAMPLES
from controller.http.messages.problems import dump_problem
from tests.conftest import NewDatabase, NewServer
from tests.server import ServerProcess
from tests.service.in_process import called_in_process
from tests.service.problems import (
    EMBEDDED,
    EVENTS,
    NOTE,
    ONE,
    check_problem,
    make_streams,
)
from tests.tokens import Tokens
from tidegauge.errors import PROBLEMS, InvalidPositionError, problem_of
from tidegauge.event_time import END_OF_TIME
from tidegauge.wire.events import ARROW, NDJSON

pytestmark = pytest.mark.only_on("sqlite", "requests are read before any database")

JSON = {"content-type": "application/json"}
LINES = {"content-type": NDJSON}
APPENDS = {"content-type": ARROW, "tidegauge-writer": "w", "tidegauge-sequence": "1"}
MANY, TWO, GROUP = "/v1/note-times", "/v1/streams/tests/two", "/v1/reader-groups/tests/g"
INVALID = (422, "invalid_request")
TIME = 1_700_000_000_000
LIMIT = 200_000
REPORT_LIMIT = 65_536
LONG = "x" * 50_000


@pytest.fixture(scope="module")
def client(
    new_database: NewDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    url = new_database(tmp_path_factory.mktemp("refusals"))
    settings = ServeSettings(database_url=url, max_body_bytes=LIMIT)
    with called_in_process(settings, checks_host=True) as one:
        make_streams(one)
        yield one


REFUSED: dict[tuple[int, str], list[str]] = {
    (404, "unknown_stream"): [
        "GET /v1/streams/tests/none",
        "GET /v1/streams/tests/none/marks",
        "DELETE /v1/streams/tests/none",
        "POST /v1/streams/tests/none/writers/w/register",
        "POST /v1/streams/tests/none/writers/w/note-time",
    ],
    (404, "unknown_writer"): [
        f"POST {ONE}/writers/none/leave",
        f"POST {ONE}/writers/none/expire",
    ],
    (404, "unknown_segment"): [f"GET {EMBEDDED}/segments/7/events"],
    (404, "unknown_group"): ["GET /v1/reader-groups/tests/none"],
    (404, "not_found"): [
        "GET /v2/streams",
        "GET /redoc",
        "GET /docs/assets/none.js",
        f"POST {ONE}/shrink",
        f"GET {ONE}/",
        f"GET {EVENTS}/",
        "GET /healthz/",
        "GET /docs/",
        "GET /v1/streams/",
        f"POST {NOTE}/",
        "POST /v1/note-times/",
        "GET /v1/streams//one",
        "GET /v1/streams/te%2Fsts/one",
        "POST /v2/streams/tests/one/writers/w/note-time",
        "POST /v1/streams//one/writers/w/note-time",
        f"POST {ONE}/readers/w/note-time",
        "POST /v1/reader-groups/tests/one/readers/r/note-time",
    ],
    (405, "method_not_allowed"): [
        "POST /",
        "POST /v1/streams",
        f"GET {NOTE}",
        "PATCH /v1/note-times",
        f"PUT {ONE}/marks",
        f"PUT /v1/streams/tests/{LONG}/marks",
        f"GET {ONE}/writers/{LONG}/note-time",
    ],
    (409, "invalid_position"): [
        f"GET {ONE}/marks/at?position=7:1",
        f"GET {ONE}/marks/at?position=0:-1",
        f"GET {EMBEDDED}/tail?after=0:-1",
    ],
    (409, "stream_replaced"): [
        f"GET {ONE}?stream_id=another",
        f"POST {NOTE}?stream_id=another",
        f"GET {ONE}?stream_id={LONG}",
        f"POST {NOTE}?stream_id={LONG}",
    ],
    INVALID: [
        # names
        "GET /v1/streams/tests/-bad",
        "GET /v1/streams/t%20t/one",
        "GET /v1/streams/t%00t/one",
        "GET /v1/streams/tests/one%0A",
        "DELETE /v1/reader-groups/tests/%00",
        f"GET /v1/streams/tests/{'x' * 256}",
        "POST /v1/streams/tests/one/writers/%C3%A4/note-time",
        "POST /v1/streams/tests/one/writers/_w/register",
        # parameters that a call does not have
        "GET /?unknown=1",
        f"GET {ONE}/marks?unknown=1",
        f"POST {NOTE}?unknown=1",
        f"POST {NOTE}?stream_ID=1",
        "POST /v1/note-times?unknown=1",
        f"POST {ONE}/writers/w/register?unknown=1",
        f"POST {ONE}/seal?unknown",
        f"DELETE {ONE}?unknown=1",
        f"GET {EVENTS}?unknown=1",
        "GET /v1/reader-groups?unknown=1",
        "GET /healthz?unknown=1",
        "GET /metrics?unknown=1",
        # values that they cannot have
        f"GET {ONE}/marks?limit=0",
        "GET /v1/streams?cursor=nonsense",
        "GET /v1/streams?cursor=%C3%A4",
        "GET /v1/streams?cursor=b25l",
        "GET /v1/reader-groups?cursor=b25l",
        f"GET {ONE}/writers?cursor=L29uZQ==",
        f"GET {ONE}/writers?state=sleeping",
        f"GET {ONE}/marks/at",
        f"GET {ONE}/marks/at?time=1&position=0:1",
        f"GET {ONE}/marks/at?position=0-1",
        *(
            path + number
            for number in ("1.0", "1e2", "1_0", "%2B1", "%201", "x", "", "9223372036854775808")
            for path in (
                f"GET {ONE}/marks?after=",
                f"GET {ONE}/marks?limit=",
                f"GET {ONE}/marks?wait_ms=",
                f"GET {ONE}/writers?limit=",
                f"GET {EMBEDDED}/tail?revision=",
                f"GET {EMBEDDED}/tail?after=0:",
                f"GET {EMBEDDED}/marks/at?time=",
                f"GET {EMBEDDED}/marks/at?position=0:",
                f"GET {EVENTS}?start=",
                f"GET {EVENTS}?end=",
            )
        ),
    ],
}
"""Calls without a body, or with a good one."""


@pytest.mark.parametrize(
    ("call", "refusal"),
    [(call, refusal) for refusal, calls in REFUSED.items() for call in calls],
)
def test_what_cannot_be_asked(
    client: httpx.Client, call: str, refusal: tuple[int, str]
) -> None:
    method, path = call.split(" ")
    body = {"time": 1, "position": {}} if method == "POST" else None
    answer = client.request(method, path, json=body)
    document = check_problem(answer, *refusal)
    assert len(answer.content) < 5_000
    if document["code"] != "method_not_allowed":
        assert problem_of(document).document() == document


NO_OBJECT = ["", "{", "[]", '"x"', "\x00", '{"time": 1} x', "\udcff", "[" * 50_000, "null"]
POSITIONS = [
    '{"0": 1.0}',
    '{"0": 1e2}',
    '{"0": NaN}',
    '{"0": true}',
    '{"0": 1.5}',
    '{"x": 1}',
    '{"0": null}',
    "[0, 1]",
    '[true, {"x": 1}]',
    '"0:1"',
    '{"0": 9223372036854775808}',
    '{"9223372036854775808": 1}',
    '{"0": 1, "00": 2}',
]
TWICE = [
    (f"POST {NOTE}", '{"time": 1, "time": 2, "position": {}}'),
    (f"POST {NOTE}", '{"time": 1, "position": {"0": 1, "0": 2}}'),
    (f"POST {NOTE}", '{"time": "1", "position": {}, "position": {"0": 1}}'),
    (f"POST {ONE}/writers/w/leave", '{"time": 1, "time": 2, "position": {}}'),
    (f"PUT {TWO}", '{"segments": 1, "segments": 2}'),
    (f"POST {MANY}", '{"reports": [], "reports": []}'),
]
UNKNOWN: list[tuple[str, dict[str, object]]] = [
    (f"POST {NOTE}", {"time": 1, "positon": {"0": 1}}),
    (f"POST {ONE}/writers/w/register", {"times": 1}),
    (f"POST {ONE}/writers/w/leave", {"tiem": 1}),
    (f"PUT {TWO}", {"segment": 4}),
    (f"POST {MANY}", {"report": []}),
    (f"POST {ONE}/seal", {"lengths": {}}),
    (f"PUT {GROUP}", {"streams": ["tests/one"], "strat": "latest"}),
]
SETTINGS: list[dict[str, object]] = [
    {"segments": 0},
    {"segments": 10_001},
    {"segments": 1.5},
    {"segments": 1.0},
    {"segments": True},
    {"mark_interval_ms": 1e3},
    {"mark_interval_ms": 2**63},
    {"mark_interval_ms": -1},
    {"mark_interval_ms": None},
    {"log": "kafka"},
    {"scaling": "auto"},
    {"aggregation_timeout_ms": 0},
    {"min_writers": None},
    {"max_future_skew_ms": "soon"},
    {"max_segments": 0},
]
ENDLESS: list[dict[str, object]] = [
    {"time": "9" * 50_000, "position": {}},
    {"time": 1, "position": {"9" * 50_000: 1}},
    {"time": 1, "position": {str(number): "x" for number in range(5_000)}},
    {"time": 1, "position": {str(number): 1 for number in range(5_000)} | {"00": 1}},
    {f"unknown-{number}": 1 for number in range(3_000)},
    {"x" * 50_000: 1},
]
BODIES: list[tuple[str, str]] = [
    *((f"{call}", body) for call in (f"POST {NOTE}", f"POST {MANY}") for body in NO_OBJECT),
    *((f"PUT {TWO}", body) for body in [*NO_OBJECT, "[null]"]),
    *((f"POST {NOTE}", f'{{"time": {TIME}, "position": {one}}}') for one in POSITIONS),
    *TWICE,
    *((call, json.dumps(body)) for call, body in UNKNOWN),
    *((f"PUT {TWO}", json.dumps(one)) for one in SETTINGS),
    *((f"POST {NOTE}", json.dumps(one)) for one in ENDLESS),
    (f"POST {NOTE}", '{"time": {"x": [1, null]}, "position": {}}'),
    (f"POST {NOTE}", '{"time": 1, "position": {}, "incarnation": false}'),
    (f"POST {NOTE}", f'{{"time": {TIME}}}'),  # a report of an external log has a position
    (f"POST {ONE}/writers/w/leave", "[true]"),
    (f"POST {ONE}/seal", '{"position": true}'),
    (f"POST {MANY}", '{"reports": {"x": null}}'),
    (f"POST {MANY}", '{"reports": [' + "[" * 50_000),
    (f"PUT {GROUP}", '{"streams": {"x": true}}'),
]


@pytest.mark.parametrize(("call", "body"), BODIES)
def test_a_body_that_cannot_be(client: httpx.Client, call: str, body: str) -> None:
    content = body.encode("utf-8", "surrogateescape")
    answer = client.request(*call.split(), content=content, headers=JSON)
    document = check_problem(answer, *INVALID)
    assert len(answer.content) < 20_000
    assert all(one["field"] and one["message"] for one in document["errors"])
    assert ((call, body) in TWICE) == (
        "twice in one object; send it once" in document["detail"]
    )


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
    answer = client.post(MANY, content=many, headers=JSON)
    if time in {"NaN", "Infinity"}:
        check_problem(answer, *INVALID)
    else:
        (refused,) = answer.raise_for_status().json()["results"]
        assert refused["status"] == 422
        assert refused["errors"][0]["field"] in {"time", "body"}
    document = check_problem(client.post(NOTE, content=body, headers=JSON), *INVALID)
    assert document["errors"][0]["field"] in {"time", "body"}
    if time != "null":
        leave = client.post(f"{ONE}/writers/w/leave", content=body, headers=JSON)
        check_problem(leave, *INVALID)


@pytest.mark.parametrize("number", ["1.0", "1e2", "1_0", "+1", "-1", "9223372036854775808"])
@pytest.mark.parametrize("header", ["tidegauge-sequence", "tidegauge-incarnation"])
def test_a_header_that_takes_a_64_bit_integer(
    client: httpx.Client, header: str, number: str
) -> None:
    answer = client.post(EVENTS, content=b"", headers=APPENDS | {header: number})
    document = check_problem(answer, *INVALID)
    assert [one["field"] for one in document["errors"]] == [header]


@pytest.mark.parametrize("incarnation", ["-1", '"-1"', "-9223372036854775808", "1.0", "true"])
def test_an_incarnation_that_cannot_be(client: httpx.Client, incarnation: str) -> None:
    body = f'{{"time": {TIME}, "position": {{}}, "incarnation": {incarnation}}}'
    for call in (NOTE, f"{ONE}/writers/w/leave"):
        document = check_problem(client.post(call, content=body, headers=JSON), *INVALID)
        assert [one["field"] for one in document["errors"]] == ["incarnation"]
    many = f'{{"reports": [{{"stream": "tests/one", "writer": "w", {body[1:]}]}}'
    (refused,) = client.post(MANY, content=many, headers=JSON).json()["results"]
    assert (refused["status"], refused["code"]) == INVALID
    query = {"writer": "w", "note_time": str(TIME), "incarnation": incarnation.strip('"')}
    content = b'{"key": "k", "value": "v"}'
    lines = client.post(f"{EMBEDDED}/events", params=query, content=content, headers=LINES)
    check_problem(lines, *INVALID)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (f"{ONE}/marks?after=-1", "after: Input should be greater than or equal to 0, not -1"),
        (
            f"{ONE}/marks?limit=1001",
            "limit: Input should be less than or equal to 1000, not 1001",
        ),
        (
            f"{ONE}/marks?wait_ms=30001",
            "wait_ms: Input should be less than or equal to 30000, not 30001",
        ),
        ("/v1/streams/-bad/one", "'-bad' is not a valid name; use ASCII letters"),
        ("/v1/streams/-bad/one/watermark", "'-bad' is not a valid name; use ASCII letters"),
    ],
)
def test_the_value_is_named_with_its_bounds(
    client: httpx.Client, call: str, problem: str
) -> None:
    assert problem in check_problem(client.get(call), *INVALID)["detail"]


def test_a_report_under_a_bad_name_is_told_the_rule(client: httpx.Client) -> None:
    answer = client.post("/v1/streams/-bad/one/writers/w/note-time")
    assert "'-bad' is not a valid name; use ASCII letters" in answer.json()["detail"]


def test_of_many_reports_those_that_are_ambiguous_or_too_large_are_refused(
    client: httpx.Client,
) -> None:
    good = f'{{"stream": "tests/one", "writer": "v", "time": {TIME}, "position": {{}}}}'
    twice = good.replace('"position": {}', '"position": {"0": 1, "0": 2}')
    long = good.replace(str(TIME), "1" * REPORT_LIMIT)
    replaced = good.replace('"writer"', f'"stream_id": "{LONG}", "writer"')
    reports = f"{good}, {twice}, {long}, {replaced}"
    answer = client.post(MANY, content=f'{{"reports": [{reports}]}}', headers=JSON)
    results = answer.raise_for_status().json()["results"]
    assert [(one["status"], one.get("code")) for one in results] == [
        (200, None),
        INVALID,
        INVALID,
        (409, "stream_replaced"),
    ]
    assert "twice" in results[1]["detail"]
    assert "max_report_bytes" in results[2]["detail"]
    assert len(answer.content) < 5_000


@pytest.mark.parametrize(
    "line", ['{"key": null}', '{"key": true}', '{"key": "k", "value": {"x": null}}']
)
def test_a_refused_line_shows_json_and_never_python(client: httpx.Client, line: str) -> None:
    answer = client.post(f"{EMBEDDED}/events", content=line, headers=LINES)
    check_problem(answer, *INVALID)


@pytest.mark.parametrize("time", ["1", '"2024-01-01T00:00:00Z"'])
def test_a_line_that_names_a_key_twice_is_refused(client: httpx.Client, time: str) -> None:
    good = f'{{"key": "a:b", "event_time": {time}, "value": "v"}}\n'
    assert client.post(f"{EMBEDDED}/events", content=good, headers=LINES).is_success
    twice = good.replace('"value"', '"key": "k", "value"')
    answer = client.post(f"{EMBEDDED}/events", content=good + twice, headers=LINES)
    document = check_problem(answer, *INVALID)
    assert document["errors"][0]["field"] == "line 2"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/streams", "GET"),
        (ONE, "DELETE, GET, PATCH, PUT"),
        (NOTE, "POST"),
        (MANY, "POST"),
        (EVENTS, "GET, POST"),
        (f"{GROUP}/state", "GET, PUT"),
        (f"{GROUP}/readers/r", "DELETE, POST"),
    ],
)
def test_another_method_is_refused_with_all_that_are_allowed(
    client: httpx.Client, path: str, methods: str
) -> None:
    answer = client.options(path)
    check_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == methods


def test_an_empty_query_is_none(client: httpx.Client) -> None:
    report = {"time": TIME, "position": {}}
    assert client.post(f"{NOTE}?&", json=report).status_code == 200
    assert client.post(f"{MANY}?&", json={"reports": []}).status_code == 200
    assert client.get(f"{ONE}?&").status_code == 200


@pytest.mark.parametrize(
    "path", [NOTE, MANY, f"{ONE}/writers/w/register", f"{EMBEDDED}/events", EVENTS]
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_is_refused(client: httpx.Client, path: str, *, chunked: bool) -> None:
    limit = REPORT_LIMIT if path == NOTE else LIMIT
    body = b'{"time": 1, "position": {' + b" " * limit + b"}}"
    content: Any = iter([body[:5_000], body[5_000:]]) if chunked else body
    content_type = {EVENTS: ARROW, f"{EMBEDDED}/events": NDJSON}.get(path, JSON["content-type"])
    headers = APPENDS | {"content-type": content_type}
    answer = client.post(path, content=content, headers=headers)
    document = check_problem(answer, 413, "body_too_large")
    assert document["limit_bytes"] == limit
    if path == NOTE:
        assert document["setting"] == "max_report_bytes"
        assert "name only the segments that changed" in document["detail"]


def test_a_large_report_among_many_is_taken_if_it_is_plain(client: httpx.Client) -> None:
    stream = "/v1/streams/tests/wide"
    client.put(stream, json={"log": "external", "segments": 5_000}).raise_for_status()
    position = {str(number): TIME for number in range(5_000)}
    large = {"stream": "tests/wide", "writer": "w", "time": TIME, "position": position}
    text = {"stream": "tests/one", "writer": "v", "time": str(TIME + 9), "position": {}}
    assert len(json.dumps(large)) > REPORT_LIMIT
    answer = client.post(MANY, json={"reports": [large, text]})
    assert [one["status"] for one in answer.json()["results"]] == [200, 200]


def test_a_report_that_conflicts_tells_the_stored_values(client: httpx.Client) -> None:
    back = client.post(NOTE, json={"time": TIME - 1, "position": {}})
    assert check_problem(back, 409, "invalid_time")["stored_time"] == TIME
    less = client.post(NOTE, json={"time": TIME + 1, "position": {"0": 39}})
    assert check_problem(less, 409, "invalid_position")["stored_position"] == {"0": 40}
    future = client.post(NOTE, json={"time": 1_000 * TIME, "position": {}})
    assert check_problem(future, 409, "time_in_future")["max_future_skew_ms"] == 3_600_000


def test_how_far_a_writer_is_behind_fits_64_bits(client: httpx.Client) -> None:
    stream = "/v1/streams/tests/apart"
    settings = {"log": "external", "segments": 1, "max_future_skew_ms": None}
    client.put(stream, json=settings).raise_for_status()
    for writer, time in (("first", -(2**63)), ("last", END_OF_TIME - 1)):
        report = {"time": time, "position": {}}
        client.post(f"{stream}/writers/{writer}/note-time", json=report).raise_for_status()
    first, last = client.get(f"{stream}/writers").json()["writers"]
    assert (first["behind_ms"], last["behind_ms"]) == (END_OF_TIME, 0)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (NOTE, "application/json"),
        (MANY, "application/json"),
        (f"{ONE}/writers/w/register", "application/json"),
        (f"{ONE}/seal", "application/json"),
        (f"{EMBEDDED}/events", NDJSON),
        (EVENTS, ARROW),
    ],
)
@pytest.mark.parametrize("given", ["text/plain", "", LONG])
def test_another_content_type_is_refused(
    client: httpx.Client, path: str, expected: str, given: str
) -> None:
    answer = client.post(path, content=b"time=1", headers=APPENDS | {"content-type": given})
    document = check_problem(answer, 415, "unsupported_media_type")
    assert document["expected"] == expected
    assert document["content_type"] == given or given == LONG
    assert len(answer.content) < 5_000


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
        assert "send the body uncompressed" in document["detail"]
        assert answer.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("encodings", "is_taken"),
    [
        (["gzip", "identity"], False),
        (["identity", "GZIP"], False),
        (["identity", ""], True),
        ([LONG], False),
    ],
)
def test_every_value_that_says_how_a_body_is_coded_counts(
    client: httpx.Client, encodings: list[str], *, is_taken: bool
) -> None:
    headers = [("content-type", "application/json")]
    headers += [("content-encoding", one) for one in encodings]
    answer = client.post(f"{ONE}/writers/coded/register", content=b"{}", headers=headers)
    assert (answer.status_code != 415) is is_taken
    assert len(answer.content) < 5_000


@pytest.mark.parametrize("given", ["application/json; charset=utf-8", "Application/JSON"])
@pytest.mark.parametrize("path", [NOTE, f"{ONE}/writers/other/register"])
def test_a_content_type_may_be_written_in_other_ways(
    client: httpx.Client, path: str, given: str
) -> None:
    body: dict[str, object] = {"time": TIME} | ({"position": {}} if path == NOTE else {})
    answer = client.post(path, content=json.dumps(body), headers={"content-type": given})
    assert answer.status_code == 200


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
    calls = [f"{ONE}/seal", f"{GROUP}/readers/r"]
    for path in (*calls, *(f"{ONE}/writers/w/{one}" for one in ("leave", "expire"))):
        for body in (b"", b"a=b"):
            answer = client.post(path, content=body, headers=headers)
            document = check_problem(answer, 415, "unsupported_media_type")
            assert document["expected"] == "application/json"


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8470", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8470"],
)
def test_without_tokens_who_calls_by_a_name_of_this_machine_is_answered(
    client: httpx.Client, host: str
) -> None:
    assert client.get(ONE, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8470",
        "localhost.evil.example",
        "10.0.0.1",
        "[::2]",
        "",
    ],
)
@pytest.mark.parametrize("call", [f"DELETE {ONE}", f"POST {NOTE}", "GET /healthz"])
def test_without_tokens_a_rebound_name_is_refused(
    client: httpx.Client, call: str, host: str
) -> None:
    answer = client.request(*call.split(), headers={"host": host, **JSON})
    document = check_problem(answer, 421, "misdirected_request")
    assert document["host"] == host
    assert "use one of them, or start it with --tokens FILE" in document["detail"]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:1", "https://localhost:2", ""]
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
    assert "start it with --tokens FILE" in document["detail"]


def test_without_tokens_a_page_of_another_origin_may_ask_what_its_browser_will_not_show(
    client: httpx.Client,
) -> None:
    answer = client.get(ONE, headers={"origin": "http://evil.example"})
    assert answer.status_code == 200


def test_without_tokens_the_page_of_the_service_itself_is_answered(
    client: httpx.Client,
) -> None:
    """With another scheme only if a browser says that it is that page, behind a proxy with TLS."""
    call, address = f"{ONE}/writers/own/register", client.base_url.netloc.decode()
    own, other = ({"origin": f"{scheme}://{address}"} for scheme in ("http", "https"))
    assert client.post(call, headers=own).status_code == 200
    check_problem(client.post(call, headers=other), 403, "foreign_origin")
    other["sec-fetch-site"] = "same-origin"
    assert client.post(call, headers=other).status_code == 200


@pytest.mark.parametrize("option", ["tokens", "insecure"])
def test_with_tokens_or_where_it_is_wanted_any_name_is_answered(
    new_server: NewServer, tmp_path: Path, option: str
) -> None:
    value: Any = Tokens(tmp_path).file if option == "tokens" else True
    with new_server(**{option: value}) as server:
        answer = httpx.get(f"{server.url}/healthz", headers={"host": "gauge.example"})
    assert answer.status_code == 200


def test_a_path_that_is_longer_than_any(shared_server: ServerProcess) -> None:
    target = {
        "target": b"/v1/streams/" + b"x" * 70_000 + b"?after=0"
    }  # httpx takes no such URL
    with httpx.Client(base_url=shared_server.url) as client:
        answer = client.get("/", extensions=target)
        check_problem(answer, 404, "not_found")
        assert len(answer.content) < 20_000
        assert client.get("/v1/streams").status_code == 200


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
    assert statuses.pop("stands_by") == 307
    assert all(400 <= status < 600 for status in statuses.values())
    assert all(re.fullmatch(r"[a-z0-9_]+", code) for code in statuses)
