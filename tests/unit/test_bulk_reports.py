"""Many reports in one request are answered each on its own, in order, and counted."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.configuration import ServeSettings
from tests.service.in_process import Service, served_in_process

JSON = "application/json"
LIMIT = 400_000
HERE, THERE = "bulk/a", "bulk/b"
MOST = 10_000
NOW = 1_700_000_000_000
REQUESTS = "tidegauge_http_request_duration_seconds"


@dataclass(frozen=True)
class Case:
    """A request, and what it is answered.

    Attributes
    ----------
    body
        What is sent.
    answer
        The status; a list: 200 with these in their places.
    method, query, headers
        How it is sent.
    chunked
        Whether its length is left out of its head.
    """

    body: bytes
    answer: int | list[int]
    method: str = "POST"
    query: str = ""
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": JSON})
    chunked: bool = False


def _report(stream: object = HERE, **changes: object) -> dict[str, object]:
    return {"stream": stream, "writer": "w", "time": NOW, "position": {"0": 1}} | changes


def _text(*reports: object, **more: object) -> bytes:
    return json.dumps({"reports": reports} | more).encode()


def _raw(report: str) -> bytes:
    """Write one report that Python would write otherwise, after a good one."""
    good = json.dumps(_report())
    return f'{{"reports": [{good}, {report}]}}'.encode("utf-8", "surrogateescape")


def _of_here(fields: str) -> bytes:
    return _raw(f'{{"stream": "{HERE}", "writer": "w", {fields}}}')


GOOD = _report()
CASES = {
    # malformed, in its place
    "null": Case(_text(GOOD, None), [200, 422]),
    "empty object": Case(_text({}, GOOD), [422, 200]),
    "a number for a stream": Case(_text(GOOD, _report(stream=1)), [200, 422]),
    "a list for a stream": Case(_text(GOOD, _report(stream=["x"])), [200, 422]),
    "scalars and lists": Case(
        _text(1, "x", [], GOOD, True, 1.5), [422] * 3 + [200] + [422] * 2
    ),
    "nothing readable": Case(_text(None, {}), [422, 422]),
    "a bad name": Case(_text(_report("none"), GOOD, _report("-/x")), [422, 200, 422]),
    "no such stream": Case(_text(_report("bulk/none"), GOOD, None), [404, 200, 422]),
    "no writer": Case(_text({"stream": HERE, "time": NOW}, GOOD), [422, 200]),
    "a bad writer": Case(_text(_report(writer="-"), GOOD), [422, 200]),
    "an unknown field": Case(_text(_report(x=1), GOOD), [422, 200]),
    "another stream of the name": Case(_text(_report(stream_id="x"), GOOD), [409, 200]),
    "only another stream of the name": Case(_text(_report(stream_id="x")), [409]),
    "a bad time": Case(_text(_report(time="soon"), GOOD), [422, 200]),
    "an older time": Case(_text(_report(time=NOW - 1), GOOD), [409, 200]),
    "a time as text": Case(_text(_report(time=str(NOW)), GOOD), [200, 200]),
    "RFC 3339": Case(_text(_report(time="2023-11-14T22:13:20Z"), GOOD), [200, 200]),
    "a bad position": Case(_text(_report(position={"0": 1.5}), GOOD), [422, 200]),
    "a number beyond 64 bits": Case(_of_here('"time": 99999999999999999999'), [200, 422]),
    "a number without end": Case(_of_here(f'"time": 1{"0" * 5_000}'), [200, 422]),
    "a stream named twice": Case(
        _raw(
            f'{{"stream": 1, "stream": "{HERE}", "writer": "w", "time": {NOW}, "position": {{}}}}'
        ),
        [200, 422],
    ),
    "a report nested deeply": Case(_of_here(f'"time": {"[" * 500}{"]" * 500}'), [200, 422]),
    "no UTF-8": Case(_raw('"\udcff"'), [200, 422]),
    # streams of both, and malformed ones between them
    "both": Case(_text(GOOD, _report(THERE), GOOD), [200, 200, 200]),
    "both and malformed": Case(
        _text(
            None, GOOD, {}, _report(THERE), _report("bulk/none"), _report(THERE, time="x"), 7
        ),
        [422, 200, 422, 200, 404, 422, 422],
    ),
    # the list
    "an empty list": Case(_text(), []),
    "as many as may be": Case(_text(GOOD, *[None] * (MOST - 1)), [200] + [422] * (MOST - 1)),
    "one too many": Case(_text(GOOD, *[None] * MOST), 422),
    "one too many that name a stream": Case(_text(*[{"stream": HERE}] * (MOST + 1)), 422),
    "an unknown field above": Case(_text(GOOD, x=1), 422),
    "an unknown field above, and malformed": Case(_text(GOOD, None, x=1), 422),
    "no reports": Case(b"{}", 422),
    "null for reports": Case(b'{"reports": null}', 422),
    "an object for reports": Case(b'{"reports": {}}', 422),
    "reports twice": Case(b'{"reports": [null], "reports": []}', 422),
    "reports twice, the first a number": Case(b'{"reports": 1, "reports": []}', 422),
    "a list": Case(b"[]", 422),
    # no JSON
    "nothing": Case(b"", 422),
    "cut off": Case(_text(GOOD)[:-1], 422),
    "more behind it": Case(_text(GOOD) + b"x", 422),
    "NaN": Case(_of_here('"time": NaN'), 422),
    "NaN, and then a number": Case(
        _of_here(f'"time": NaN, "time": {NOW}, "position": {{}}'), 422
    ),
    "half a character": Case(_of_here(r'"stream_id": "\ud800", "time": 1'), 422),
    "nested without end": Case(b'{"reports": [' + b"[" * 50_000, 422),
    # the call
    "another method": Case(_text(GOOD), 405, method="PUT"),
    "an unknown parameter": Case(_text(GOOD), 422, query="?x=1"),
    "another content type": Case(_text(GOOD), 415, headers={"content-type": "text/plain"}),
    "no content type": Case(_text(GOOD), 415, headers={}),
    "another content type, and malformed": Case(
        _text(GOOD, None), 415, headers={"content-type": "text/plain"}
    ),
    "parameters of the content type": Case(
        _text(GOOD), [200], headers={"content-type": f"{JSON}; charset=utf-8"}
    ),
    "compressed": Case(
        gzip.compress(_text(GOOD), mtime=0),
        415,
        headers={"content-type": JSON, "content-encoding": "gzip"},
    ),
    "called compressed": Case(
        _text(GOOD), 415, headers={"content-type": JSON, "content-encoding": "gzip"}
    ),
    "called not compressed": Case(
        _text(GOOD), [200], headers={"content-type": JSON, "content-encoding": "identity"}
    ),
    "without a length": Case(_text(GOOD, None), [200, 422], chunked=True),
    "too large": Case(b" " * (LIMIT + 1), 413),
    "too large, without a length": Case(b" " * (LIMIT + 1), 413, chunked=True),
    "too large, by another method": Case(b" " * (LIMIT + 1), 405, method="PUT", chunked=True),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with two streams; what the cases report is known already."""
    url = f"sqlite:///{tmp_path_factory.mktemp('bulk')}/one.db"
    settings = ServeSettings(database_url=url, max_body_bytes=LIMIT)
    with served_in_process(settings) as running:
        for name in (HERE, THERE):
            stream = {"log": "external", "segments": 1, "mark_interval_ms": 0}
            _client(running).put(f"/v1/streams/{name}", json=stream).raise_for_status()
        _ask(running, Case(_text(GOOD, _report(THERE)), [200, 200]))
        yield running


def _client(service: Service) -> httpx.Client:
    return httpx.Client(transport=service, base_url=service.url)


def _ask(service: Service, case: Case) -> httpx.Response:
    return _client(service).request(
        case.method,
        f"/v1/note-times{case.query}",
        content=iter([case.body[:50], case.body[50:]]) if case.chunked else case.body,
        headers=case.headers,
    )


def _statuses(answer: httpx.Response) -> int | list[int]:
    if answer.status_code != httpx.codes.OK:
        return answer.status_code
    return [one["status"] for one in answer.json()["results"]]


@pytest.mark.parametrize("name", CASES)
def test_each_report_is_answered_in_its_place_and_what_is_refused_whole_counts_as_one(
    service: Service, name: str
) -> None:
    case = CASES[name]
    before = _counts(service)
    assert _statuses(_ask(service, case)) == case.answer
    if case.answer == 422:
        assert _counts(service) - before == {
            ("reports", "invalid_request"): 1,
            ("requests", "/v1/note-times"): 1,
        }


@pytest.mark.parametrize(
    ("entries", "place"),
    [
        (b"{}, NaN", "(byte 17)"),
        (b"{}, x", "line 1 column 18"),
        (b"{},\n\n{x", "line 3 column 2"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(
    service: Service, entries: bytes, place: str
) -> None:
    case = Case(b'{"reports": [%s]}' % entries, 422)
    (error,) = _ask(service, case).json()["errors"]
    assert error["field"] == "body"
    assert place in error["message"]


def test_who_sends_too_many_is_told_how_many_may_be_sent(service: Service) -> None:
    answer = _ask(service, CASES["one too many"])
    message = "10001 are too many; send them in parts of at most 10000"
    assert answer.json()["errors"] == [{"field": "reports", "message": message}]


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("another method", None),
        ("another content type", "unsupported_media_type"),
        ("called compressed", "unsupported_content_encoding"),
        ("too large, without a length", "body_too_large"),
    ],
)
def test_a_call_that_is_refused_whatever_is_in_it_is_counted_by_its_code(
    service: Service, name: str, outcome: str | None
) -> None:
    before = _counts(service)
    _ask(service, CASES[name])
    expected = {("requests", "/v1/note-times"): 1}
    if outcome is not None:
        expected["reports", outcome] = 1
    assert _counts(service) - before == expected


Counts = Counter[tuple[str, str]]


def _counts(service: Service) -> Counts:
    """Look at the counters of reports, by outcome, and those of requests, by route."""
    counts: Counts = Counter()
    metrics = _client(service).get("/metrics").text
    for family in text_string_to_metric_families(metrics):
        for name, labels, value, *_ in family.samples:
            if name == "tidegauge_reports_total":
                counts["reports", labels["outcome"]] = int(value)
            if name == f"{REQUESTS}_count" and labels["route"] != "/metrics":
                counts["requests", labels["route"]] += int(value)
    return counts
