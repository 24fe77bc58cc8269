"""Many reports in one request are answered each on its own, in order, and counted."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from controller.configuration import ServeSettings
from tests.service.in_process import called_in_process
from tests.service.problems import NO_TIMES

LIMIT, REPORT_LIMIT = 400_000, 65_536
HERE, THERE, WIDE = "bulk/a", "bulk/b", "bulk/wide"
MOST = 10_000
NOW = 1_700_000_000_000


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
PLACED = {
    # malformed, in its place
    "null": (_text(GOOD, None), [200, 422]),
    "a list for a stream": (_text(GOOD, _report(stream=["x"])), [200, 422]),
    "scalars, lists": (_text(1, "x", [], GOOD, True, 1.5), [422] * 3 + [200] + [422] * 2),
    "a bad name": (_text(_report("none"), GOOD, _report("-/x")), [422, 200, 422]),
    "no such stream": (_text(_report("bulk/none"), GOOD, None), [404, 200, 422]),
    "a bad writer": (_text(_report(writer="-"), GOOD), [422, 200]),
    "an unknown field": (_text(_report(x=1), GOOD), [422, 200]),
    "another stream of the name": (_text(_report(stream_id="x"), GOOD), [409, 200]),
    "an older time": (_text(_report(time=NOW - 1), GOOD), [409, 200]),
    "RFC 3339": (_text(_report(time="2023-11-14T22:13:20Z"), GOOD), [200, 200]),
    "a negative incarnation": (_text(GOOD, _report(incarnation=-1)), [200, 422]),
    "a bad position": (_text(_report(position={"0": 1.5}), GOOD), [422, 200]),
    "a report nested deeply": (_of_here(f'"time": {"[" * 500}{"]" * 500}'), [200, 422]),
    "no UTF-8": (_raw('"\udcff"'), [200, 422]),
    "a stream named twice": (
        _raw(f'{{"stream": 1, "stream": "{HERE}", "writer": "w", "time": {NOW}}}'),
        [200, 422],
    ),
    **{
        f"time {time:.25}": (_of_here(f'"time": {time}, "position": {{}}'), [200, 422])
        for time in (*NO_TIMES, "null", "1" + "0" * 5_000)
    },
    # streams of both, and malformed ones between them
    "both and malformed": (
        _text(
            None, GOOD, {}, _report(THERE), _report("bulk/none"), _report(THERE, time="x"), 7
        ),
        [422, 200, 422, 200, 404, 422, 422],
    ),
    # the list
    "an empty list": (_text(), []),
    "as many as may be": (_text(GOOD, *[None] * (MOST - 1)), [200] + [422] * (MOST - 1)),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with three streams; what the cases report is known already."""
    url = f"sqlite:///{tmp_path_factory.mktemp('bulk')}/one.db"
    with called_in_process(ServeSettings(database_url=url, max_body_bytes=LIMIT)) as client:
        for name, segments in ((HERE, 1), (THERE, 1), (WIDE, 5_000)):
            stream = {"log": "external", "segments": segments, "mark_interval_ms": 0}
            client.put(f"/v1/streams/{name}", json=stream).raise_for_status()
        assert _statuses(_ask(client, _text(GOOD, _report(THERE)))) == [200, 200]
        yield client


def _ask(client: httpx.Client, content: Any, **more: Any) -> httpx.Response:
    given = {"method": "POST", "headers": {"content-type": "application/json"}} | more
    return client.request(url="/v1/note-times", content=content, **given)


def _statuses(answer: httpx.Response) -> list[int]:
    return [result["status"] for result in answer.raise_for_status().json()["results"]]


@pytest.mark.parametrize("name", PLACED)
def test_each_report_is_answered_in_its_place(client: httpx.Client, name: str) -> None:
    body, answers = PLACED[name]
    assert _statuses(_ask(client, body)) == answers


def test_a_body_without_a_length_is_read(client: httpx.Client) -> None:
    body = _text(GOOD, None)
    assert _statuses(_ask(client, [body[:50], body[50:]])) == [200, 422]


def test_a_report_that_is_ambiguous_or_too_large_is_refused_in_its_place_in_short(
    client: httpx.Client,
) -> None:
    good = json.dumps(_report(position={}))
    twice = good.replace("{}", '{"0": 1, "0": 2}')
    long = good.replace(str(NOW), "1" * REPORT_LIMIT)
    replaced = good.replace('"writer"', f'"stream_id": "{"x" * 50_000}", "writer"')
    answer = _ask(client, f'{{"reports": [{good}, {twice}, {long}, {replaced}]}}')
    assert _statuses(answer) == [200, 422, 422, 409]
    _, ambiguous, large, _ = answer.json()["results"]
    assert "twice" in ambiguous["detail"]
    assert "max_report_bytes" in large["detail"]
    assert len(answer.content) < 5_000


def test_a_large_report_among_many_is_taken_if_it_is_plain(client: httpx.Client) -> None:
    large = json.dumps(_report(WIDE, position={str(at): NOW for at in range(5_000)}))
    assert len(large) > REPORT_LIMIT
    small = json.dumps(_report(writer="v", time=str(NOW)))
    twice = large.replace('"4999"', '"4998"')
    answer = _ask(client, f'{{"reports": [{large}, {small}, {twice}]}}')
    assert _statuses(answer) == [200, 200, 422]
