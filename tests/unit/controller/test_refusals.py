"""Every refusal is an RFC 9457 problem document with a stable code and what to do.

Requests are read strictly: what is ambiguous, or larger than it need be, is refused. A body says
what it is, so that no page of another site can have a browser send it unasked.
"""

import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from controller.configuration import ServeSettings
from controller.http.examples import EXAMPLES, Example
from tests.conftest import NewDatabase
from tests.linked import ROOT
from tests.service.in_process import called_in_process
from tests.service.log_api import arrow_of
from tests.service.problems import (
    EMBEDDED,
    EVENTS,
    NO_TIMES,
    NOTE,
    ONE,
    REPORT,
    TIME,
    Asked,
    Row,
    check_problem,
    make_streams,
    rows,
)
from tidegauge.errors import PROBLEMS, problem_of
from tidegauge.wire.events import ARROW, NDJSON

pytestmark = pytest.mark.only_on("sqlite", "requests are read before any database")

JSON = "application/json"
APPENDS = {"content-type": ARROW, "tidegauge-writer": "w", "tidegauge-sequence": "1"}
MANY, TWO, GROUP = "/v1/note-times", "/v1/streams/tests/two", "/v1/reader-groups/tests/g"
LEAVE, REGISTER = f"{ONE}/writers/w/leave", f"{ONE}/writers/w/register"
OTHERS = f"{ONE}/writers/other/register"
LINES = {"content-type": NDJSON}
LINES_OF_W = f"{EMBEDDED}/events?writer=w&note_time={TIME}"
LIMIT = 200_000
REPORT_LIMIT = 65_536
LONG = "x" * 50_000

NO_OBJECT = ["", "{", "[]", '"x"', "\x00", '{"time": 1} x', "\udcff", "[" * 50_000, "null"]
NO_OFFSETS = ["1.0", "1e2", "NaN", "true", "1.5", "null", "9223372036854775808"]
POSITIONS = [f'{{"0": {offset}}}' for offset in NO_OFFSETS]
POSITIONS += ['{"x": 1}', '{"9223372036854775808": 1}', '{"0": 1, "00": 2}', '"0:1"', "[0, 1]"]
POSITIONS += ['[true, {"x": 1}]']
ENDLESS: list[dict[str, object]] = [
    {"time": "9" * 50_000, "position": {}},
    {"time": 1, "position": {"9" * 50_000: 1}},
    {"time": 1, "position": {str(number): "x" for number in range(5_000)}},
    {"time": 1, "position": {str(number): 1 for number in range(5_000)} | {"00": 1}},
    {f"unknown-{number}": 1 for number in range(3_000)},
    {"x" * 50_000: 1},
]
SETTINGS: dict[str, list[object]] = {
    "segments": [0, 1.5, 1.0, True],
    "mark_interval_ms": [1e3, 2**63, -1, None],
    "scaling": ["auto"],
    "min_writers": [None],
    "max_future_skew_ms": ["soon"],
    "max_segments": [0],
}
OF_HOLDS = ["OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk=", "LTE=", "eA=="]
"""Cursors of no span: 9999…, -1 and x."""
NO_TABLES = ["\x1b[2J", "lake\n", "\x9b2J"]
"""Names that cannot be printed."""
WHOLE = [
    {"reports": [{"stream": "a"}] * 10_001},
    {"reports": [REPORT], "x": 1},
    {"reports": [None], "x": 1},
    {},
    {"reports": None},
    '{"reports": [null], "reports": []}',
    '{"reports": 1, "reports": []}',
    '{"reports": [{"time": NaN, "time": 1}]}',
    '{"reports": [{"time": Infinity}]}',
    r'{"reports": [{"stream_id": "\ud800", "time": 1}]}',
]
"""Many reports of which none is answered in its place."""
PROGRESS: list[dict[str, object]] = [
    {"late": -1},
    {"backlog": 1.5},
    {"state_bytes": 2**63},
    {"bound": "noon"},
    {"lag": 5},
    {"late_writers": {"no name": 1}},
    {"late_writers": {f"writer-{number}": 1 for number in range(11)}},
]
"""Of a query, each of which cannot be."""
ANYHOW = {"if-match": "*"}
TARGET = {"events_per_s": 9}
BOTH_TARGETS, SHORT_WINDOW = TARGET | {"bytes_per_s": 1}, TARGET | {"window_ms": 1_999}
SOON_DEAD = {"streams": ["tests/one"], "heartbeat_ms": 5_000, "dead_after_ms": 1_000}
LINE = '{"key": "k", "value": "v"}'
FORMS = [
    {"content-type": "text/plain"},
    {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"},
    {"content-type": "multipart/form-data; boundary=x"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]
"""Headers with which a browser sends what a page of another site wants, unasked."""
NO_FORMS: list[dict[str, str]] = [
    {},
    {"content-type": JSON},
    {"content-type": JSON, "sec-fetch-site": "cross-site"},
    {"origin": "http://localhost", "sec-fetch-site": "same-origin"},
]
HOSTS = ["evil.example", "evil.example:8470", "localhost.evil.example", "10.0.0.1", "[::2]", ""]
OWN_HOSTS = ["localhost", "LOCALHOST:8470", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8470"]
OTHER = "http://evil.example"
ORIGINS = [OTHER, "null", "http://localhost:1", "https://localhost", "https://localhost:2", ""]


def _coded(*encodings: str) -> list[tuple[str, str]]:
    return [("content-type", JSON), *(("content-encoding", coding) for coding in encodings)]


def _of_other_types(*paths: str) -> list[Asked]:
    types = ("text/plain", "", LONG)
    return [
        (f"POST {path}", b"time=1", APPENDS | {"content-type": given})
        for path in paths
        for given in types
    ]


def _compressed(example: Example) -> Asked:
    """Compress the body of an example that is taken as far as its encoding."""
    call = f"{example.method} {example.url.replace('flights/departures', 'tests/embedded')}"
    if "writer" in example.query:
        call += f"?writer={example.query['writer']}"
    # The body is part of the test's name, which all workers have to find alike: no time in it.
    body = gzip.compress(example.body if isinstance(example.body, bytes) else b"{}", mtime=0)
    return call, body, {"Content-Type": JSON, **example.headers, "Content-Encoding": "gzip"}


REFUSED: dict[str, list[Asked]] = {
    "404 unknown_stream": [
        "GET /v1/streams/tests/none",
        "GET /v1/streams/tests/none/marks",
        "DELETE /v1/streams/tests/none",
        "POST /v1/streams/tests/none/writers/w/register",
        "POST /v1/streams/tests/none/writers/w/note-time",
    ],
    "404 unknown_writer": [
        f"POST {ONE}/writers/none/expire",
        (f"POST {EMBEDDED}/transactions", {"writer": "stranger"}),
        *((f"POST {ONE}/writers/none/leave", b"", headers) for headers in NO_FORMS),
    ],
    "404 unknown_segment": [f"GET {EMBEDDED}/segments/7/events"],
    "404 unknown_group: PUT /v1/reader-groups/tests/none over HTTP": [
        "GET /v1/reader-groups/tests/none",
        ("POST /v1/reader-groups/tests/none/progress", {"late": 1}),
    ],
    "404 unknown_transaction": [
        f"GET {EMBEDDED}/transactions/none",
        (f"POST {EMBEDDED}/transactions/none/commit", {}),
        (f"POST {EMBEDDED}/transactions/none/segments/0/events", arrow_of([]), APPENDS),
    ],
    "404 not_found": [
        "GET /v2/streams",
        "GET /docs/assets/none.js",
        "GET /ui/../front_page.py",
        f"POST {ONE}/shrink",
        f"GET {EVENTS}/",
        "GET /v1/streams/",
        f"POST {NOTE}/",
        "GET /v1/streams//one",
        "GET /v1/streams/te%2Fsts/one",
        "POST /v2/streams/tests/one/writers/w/note-time",
        "POST /v1/streams//one/writers/w/note-time",
        f"POST {ONE}/readers/w/note-time",
    ],
    "405 method_not_allowed": [
        f"PUT /v1/streams/tests/{LONG}/marks",
        f"GET {ONE}/writers/{LONG}/note-time",
    ],
    "409 invalid_position": [
        f"GET {ONE}/marks/at?position=7:1",
        f"GET {ONE}/marks/at?position=0:-1",
        f"GET {EMBEDDED}/tail?after=0:-1",
    ],
    "409 immutable_setting": [
        (f"PATCH {ONE}", wanted, ANYHOW) for wanted in ({"segments": 4}, {"log": "embedded"})
    ],
    "428 precondition_required": [(f"PATCH {ONE}", {"min_writers": 1})],
    "409 log_is_external": [
        (f"PATCH {ONE}", {"scaling": TARGET}, ANYHOW),
        (f"POST {ONE}/events", LINE, LINES),
        (f"POST {ONE}/segments/0/events", arrow_of([]), APPENDS),
        f"GET {ONE}/segments/0/events",
        (f"POST {ONE}/scale", {"seal": [0], "ranges": [[0, 0.5], [0.5, 1]]}),
        (f"PUT {TWO}", {"log": "external", "scaling": {"events_per_s": 9}}),
        (f"POST {ONE}/transactions", {"writer": "w"}),
        (f"POST {ONE}/truncate", {"cut": {"0": 0}}),
    ],
    "409 stream_replaced": [
        f"GET {ONE}?stream_id=another",
        f"POST {NOTE}?stream_id=another",
        f"GET {ONE}?stream_id={LONG}",
        f"POST {NOTE}?stream_id={LONG}",
    ],
    "422 invalid_request: is not a valid name; use ASCII letters": [
        "GET /v1/streams/tests/-bad",
        "GET /v1/streams/t%00t/one",
        "GET /v1/streams/tests/one%0A",
        f"GET /v1/streams/tests/{'x' * 256}",
        "POST /v1/streams/tests/one/writers/%C3%A4/note-time",
        "POST /v1/streams/tests/one/writers/_w/register",
        ("POST /v1/streams/-bad/one/writers/w/note-time", b""),
    ],
    "422 invalid_request: this call has no such parameter": [
        f"GET {ONE}/marks?unknown=1",
        f"POST {NOTE}?unknown=1",
        f"POST {NOTE}?stream_ID=1",
        "POST /v1/note-times?unknown=1",
        f"POST {REGISTER}?unknown=1",
        f"GET {EVENTS}?unknown=1",
        "GET /healthz?unknown=1",
    ],
    "422 invalid_request": [
        f"GET {ONE}/marks?limit=0",
        "GET /v1/streams?cursor=nonsense",
        "GET /v1/streams?cursor=%C3%A4",
        "GET /v1/streams?cursor=b25l",
        "GET /v1/reader-groups?cursor=b25l",
        f"GET {ONE}/writers?cursor=L29uZQ==",
        f"GET {ONE}/writers?state=sleeping",
        f"GET {ONE}/marks/at",
        *(f"GET {ONE}/holds?cursor={beyond}" for beyond in OF_HOLDS),
        "GET /v1/streams?order=trouble&cursor=x",
        "GET /v1/streams?q=x",
        "GET /v1/streams?state=held",
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
        *((call, body) for call in (f"POST {NOTE}", f"POST {MANY}") for body in NO_OBJECT),
        *((f"PUT {TWO}", body) for body in [*NO_OBJECT, "[null]"]),
        *((f"POST {NOTE}", f'{{"time": {TIME}, "position": {one}}}') for one in POSITIONS),
        *((f"POST {NOTE}", body) for body in ENDLESS),
        *((f"PUT {TWO}", {name: one}) for name, given in SETTINGS.items() for one in given),
        (f"PUT {TWO}", {"log": "embedded", "table": "s3://lake/hourly"}),
        *((f"PUT {TWO}", {"log": "external", "table": one}) for one in NO_TABLES),
        (f"POST {NOTE}", '{"time": {"x": [1, null]}, "position": {}}'),
        (f"POST {NOTE}", f'{{"time": {TIME}}}'),  # a report of an external log has a position
        (f"POST {LEAVE}", "[true]"),
        (f"POST {ONE}/seal", '{"position": true}'),
        (f"POST {MANY}", '{"reports": {"x": null}}'),
        *((f"POST {MANY}", body) for body in WHOLE),
        (f"POST {MANY}", '{"reports": [' + "[" * 50_000),
        (f"PUT {GROUP}", '{"streams": {"x": true}}'),
        *((f"POST {GROUP}/progress", progress) for progress in PROGRESS),
        *(
            (f"POST {EMBEDDED}/transactions", {"writer": "w", "timeout_ms": one})
            for one in (999, 86_400_001)
        ),
    ],
    "422 invalid_request: send either cut or time": [
        (f"POST {EMBEDDED}/truncate", body) for body in ({}, {"cut": {"0": 1}, "time": 1})
    ],
    "422 invalid_request: 1 is not after since, which is 1": [
        f"GET {path}?since=1&until=1"
        for path in (f"{ONE}/holds", f"{ONE}/marks/history", "/v1/holds")
    ],
    "422 invalid_request: twice in one object; send it once": [
        (f"POST {NOTE}", '{"time": 1, "time": 2, "position": {}}'),
        (f"POST {NOTE}", '{"time": 1, "position": {"0": 1, "0": 2}}'),
        (f"POST {NOTE}", '{"time": "1", "position": {}, "position": {"0": 1}}'),
        (f"POST {LEAVE}", '{"time": 1, "time": 2, "position": {}}'),
        (f"PUT {TWO}", '{"segments": 1, "segments": 2}'),
    ],
    "422 invalid_request: : this call has no such field": [
        (f"POST {NOTE}", {"time": 1, "positon": {"0": 1}}),
        (f"POST {REGISTER}", {"times": 1}),
        (f"POST {LEAVE}", {"tiem": 1}),
        (f"PUT {TWO}", {"segment": 4}),
        (f"POST {MANY}", {"report": []}),
        (f"POST {ONE}/seal", {"lengths": {}}),
        (f"PUT {GROUP}", {"streams": ["tests/one"], "strat": "latest"}),
    ],
    "422 invalid_request: time: ": [
        *(
            (f"POST {call}", f'{{"time": {time}, "position": {{}}}}')
            for call in (NOTE, LEAVE)
            for time in NO_TIMES
        ),
        (f"POST {NOTE}", '{"time": null, "position": {}}'),
    ],
    "422 invalid_request: incarnation: ": [
        *(
            (f"POST {call}", f'{{"time": {TIME}, "position": {{}}, "incarnation": {number}}}')
            for number in ("-1", '"-1"', "-9223372036854775808", "1.0", "true", "false")
            for call in (NOTE, LEAVE)
        ),
        *(
            (f"POST {LINES_OF_W}&incarnation={number}", LINE, LINES)
            for number in ("-1", "-9223372036854775808", "1.0", "true")
        ),
    ],
    "422 invalid_request: body: ": [
        *((f"POST {NOTE}", b"", headers) for headers in NO_FORMS),
        *(
            (f"POST {call}", f'{{"time": {time}, "position": {{}}}}')
            for call in (NOTE, LEAVE)
            for time in ("NaN", "Infinity", "1" + "0" * 5_000)
        ),
    ],
    **{
        f"422 invalid_request: {header}: ": [
            (f"POST {EVENTS}", b"", APPENDS | {header: number})
            for number in ("1.0", "1e2", "1_0", "+1", "-1", "9223372036854775808")
        ]
        for header in ("tidegauge-sequence", "tidegauge-incarnation")
    },
    "415 unsupported_media_type: `Content-Type: application/json`": [
        *((f"{one.method} {one.url}", b"{}") for one in EXAMPLES if isinstance(one.body, dict)),
        (f"POST {LEAVE}", b"{}"),
        *_of_other_types(NOTE, MANY, REGISTER, f"{ONE}/seal"),
        *(
            (f"POST {path}", body, headers)
            for path in (f"{ONE}/seal", f"{GROUP}/readers/r", LEAVE, f"{ONE}/writers/w/expire")
            for headers in FORMS
            for body in (b"", b"a=b")
        ),
    ],
    f"415 unsupported_media_type: `Content-Type: {NDJSON}`": _of_other_types(
        f"{EMBEDDED}/events"
    ),
    f"415 unsupported_media_type: `Content-Type: {ARROW}`": _of_other_types(EVENTS),
    "415 unsupported_content_encoding: send the body uncompressed": [
        *(_compressed(example) for example in EXAMPLES if example.body is not None),
        (f"POST {REGISTER}", b"{}", _coded("gzip", "identity")),
        (f"POST {REGISTER}", b"{}", _coded("identity", "GZIP")),
        (f"POST {REGISTER}", b"{}", _coded(LONG)),
    ],
    "421 misdirected_request: use one of them, or start the service with --tokens FILE": [
        (call, None, {"host": host})
        for call in (f"DELETE {ONE}", f"POST {NOTE}", "GET /healthz", "GET /", "GET /ui/app.js")
        for host in HOSTS
    ],
    "403 foreign_origin: start it with --tokens FILE": [
        (call, None, {"origin": origin})
        for call in (f"POST {ONE}/seal", f"POST {REGISTER}", f"POST {NOTE}", f"PUT {ONE}")
        for origin in ORIGINS
    ],
}
TEXTS: list[tuple[str, object, str]] = [
    (f"PUT {GROUP}2", {"streams": ["tests/one"], "start": "latest"}, "send start_cut"),
    (f"PUT {GROUP}2", {"streams": ["tests/one"], "start_time": 5}, "are these seconds"),
    (f"GET {ONE}/marks?after=-1", None, "greater than or equal to 0, not -1"),
    (f"GET {ONE}/marks?limit=1001", None, "less than or equal to 1000, not 1001"),
    (f"GET {ONE}/marks?wait_ms=30001", None, "less than or equal to 30000, not 30001"),
    (f"GET {ONE}/marks/history?since=0&until=86400000", None, "43200 or more"),
    (f"PUT {TWO}", {"segments": 10_001}, "less than or equal to 10000, not 10001"),
    (f"PUT {TWO}", {"log": "kafka"}, "log: Input should be 'embedded' or 'external'"),
    (f"PUT {TWO}", {"aggregation_timeout_ms": 0}, "not 0; null waits without a limit"),
    (f"PUT {TWO}", {"mark_retention_ms": "-7"}, "null keeps marks as long as the events"),
    (f"PUT {TWO}", {"scaling": "auto"}, 'scaling: should be "fixed" or a policy, such as'),
    (f"PUT {TWO}", {"scaling": {}}, "scaling.policy: give one target"),
    (f"PUT {TWO}", {"scaling": BOTH_TARGETS}, "scaling.policy: give one target"),
    (f"PUT {TWO}", {"scaling": {"events_per_s": 0}}, "greater than or equal to 1, not 0"),
    (f"PUT {TWO}", {"scaling": SHORT_WINDOW}, "greater than or equal to 2000, not 1999"),
    (f"PUT {TWO}", {"scaling": TARGET | {"rate": 2}}, "scaling.policy.rate: this call has"),
    (f"PUT {TWO}", {"scaling": TARGET | {"min_segments": 65}}, "or raise max_segments"),
    (f"PUT {GROUP}", {"streams": ["tests/one"], "start_cut": {"0": 1}}, "send an object"),
    (f"PUT {GROUP}", SOON_DEAD, "heartbeat_ms, 5000: make it longer"),
    (f"POST {MANY}", {"reports": [None] * 10_001}, "send them in parts of at most 10000"),
    (f"POST {MANY}", '{"reports": [{}, NaN]}', "(byte 17)"),
    (f"POST {MANY}", '{"reports": [{}, x]}', "line 1 column 18"),
    (f"POST {MANY}", '{"reports": [{},\n\n{x]}', "line 3 column 2"),
]
"""What a call is told: a part of the text with the value, the bound or the cure."""
SAID = [Row(f"422 invalid_request: {text}", call, body, {}) for call, body, text in TEXTS]
ANSWERED: dict[str, list[Asked]] = {
    "200": [
        f"POST {NOTE}?&",
        (f"POST {MANY}?&", {"reports": []}),
        f"GET {ONE}?&",
        *((f"POST {OTHERS}", b"", headers) for headers in NO_FORMS),
        (f"POST {OTHERS}", b"{}", _coded("identity", "")),
        *(
            (call, body, {"content-type": given})
            for call, body in ((f"POST {NOTE}", REPORT), (f"POST {OTHERS}", {"time": TIME}))
            for given in (f"{JSON}; charset=utf-8", "Application/JSON")
        ),
        *((f"GET {ONE}", None, {"host": host}) for host in OWN_HOSTS),
        # What a browser will not show to a page of another origin.
        (f"GET {ONE}", None, {"origin": OTHER}),
        # The page of the service itself; behind a proxy with TLS its browser says so.
        (f"POST {OTHERS}", b"", {"origin": "http://localhost"}),
        (
            f"POST {OTHERS}",
            b"",
            {"origin": "https://localhost", "sec-fetch-site": "same-origin"},
        ),
    ]
}


@pytest.fixture(scope="module")
def client(
    new_database: NewDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    url = new_database(tmp_path_factory.mktemp("refusals"))
    settings = ServeSettings(database_url=url, max_body_bytes=LIMIT)
    with called_in_process(settings, checks_host=True) as client:
        make_streams(client)
        yield client


@pytest.mark.parametrize("row", [*rows(REFUSED), *SAID], ids=str)
def test_what_is_refused_says_why_and_changes_nothing(client: httpx.Client, row: Row) -> None:
    before = _state(client)
    row.check(row.send(client))
    assert _state(client) == before


def _state(client: httpx.Client) -> Any:
    """Read what is there but for what changes with time."""
    streams = client.get("/v1/streams").json()["streams"]
    groups = client.get("/v1/reader-groups").json()["groups"]
    writers = client.get(f"{ONE}/writers").json()["writers"]
    known = [{**one, "silent_ms": 0, "expires_in_ms": 0} for one in writers]
    return streams, groups, known


@pytest.mark.parametrize("row", rows(ANSWERED), ids=str)
def test_what_is_unusual_and_unambiguous_is_answered(client: httpx.Client, row: Row) -> None:
    assert row.send(client).status_code == int(row.answer)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/streams", "GET"),
        ("/metrics", "GET"),
        (ONE, "DELETE, GET, PATCH, PUT"),
        (NOTE, "POST"),
        (MANY, "POST"),
        (EVENTS, "GET, POST"),
        (f"{GROUP}/state", "GET, PUT"),
        (f"{GROUP}/readers/r", "DELETE, POST"),
    ],
)
@pytest.mark.parametrize("method", ["OPTIONS", "HEAD"])
def test_another_method_is_refused_with_all_that_are_allowed(
    client: httpx.Client, path: str, methods: str, method: str
) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)


def test_a_report_that_conflicts_says_what_is_stored(client: httpx.Client) -> None:
    back = client.post(NOTE, json={"time": TIME - 1, "position": {}})
    assert check_problem(back, 409, "invalid_time")["stored_time"] == TIME
    less = client.post(NOTE, json={"time": TIME + 1, "position": {"0": 39}})
    assert check_problem(less, 409, "invalid_position")["stored_position"] == {"0": 40}
    future = client.post(NOTE, json={"time": 1_000 * TIME, "position": {}})
    problem = check_problem(future, 409, "time_in_future")
    assert problem["max_future_skew_ms"] == 3_600_000
    assert "; are these microseconds? " in problem["detail"]
    ahead = client.post(NOTE, json={"time": problem["server_time"] + 7_200_000, "position": {}})
    both = "; the writer's clock is ahead, or the server's is behind. "
    assert both in check_problem(ahead, 409, "time_in_future")["detail"]


@pytest.mark.parametrize("path", [NOTE, MANY, REGISTER, f"{EMBEDDED}/events", EVENTS])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_huge_body_is_refused(client: httpx.Client, path: str, *, chunked: bool) -> None:
    limit = REPORT_LIMIT if path == NOTE else LIMIT
    body = b'{"time": 1, "position": {' + b" " * limit + b"}}"
    content: Any = [body[:5_000], body[5_000:]] if chunked else body
    kind = {EVENTS: ARROW, f"{EMBEDDED}/events": NDJSON}.get(path, JSON)
    answer = client.post(path, content=content, headers=APPENDS | {"content-type": kind})
    document = check_problem(answer, 413, "body_too_large")
    assert document["limit_bytes"] == limit
    if path == NOTE:
        assert document["setting"] == "max_report_bytes"
        assert "name only the segments that changed" in document["detail"]


def test_an_encoding_that_is_refused_is_named_with_the_one_that_is_taken(
    client: httpx.Client,
) -> None:
    answer = client.post(NOTE, content=b"{}", headers=_coded("gzip"))
    document = check_problem(answer, 415, "unsupported_content_encoding")
    assert document["content_encoding"] == "gzip"
    assert answer.headers["accept-encoding"] == "identity"


def test_what_the_proxy_of_scopes_says_is_an_error_of_the_clients() -> None:
    said = (ROOT / "deploy" / "haproxy-scopes.cfg").read_text()
    (text,) = re.findall(r'application/problem\+json string "(.+)" unless', said)
    document = json.loads(text.replace('\\"', '"'))
    assert problem_of(document).document() == document


def test_every_code_has_one_status_and_one_class() -> None:
    statuses = {code: cls.status for code, cls in PROBLEMS.items()}
    assert len(set(PROBLEMS.values())) == len(PROBLEMS)
    assert statuses.pop("stands_by") == 307
    assert all(400 <= status < 600 for status in statuses.values())
    assert all(re.fullmatch(r"[a-z0-9_]+", code) for code in statuses)
