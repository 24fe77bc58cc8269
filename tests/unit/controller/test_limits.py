"""What is more than the service was set to take is refused, with the setting that says so."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest

from controller.configuration import ServeSettings
from reader_client import StreamClient
from tests.conftest import NewDatabase
from tests.patience import PATIENCE_S, wait_until
from tests.service.api import Api
from tests.service.in_process import Service, served_in_process
from tests.service.problems import (
    EMBEDDED,
    ONE,
    TIME,
    Asked,
    Row,
    check_problem,
    rows,
)
from tests.unit.conftest import Serve
from tidegauge.errors import TooManyWaitingError
from tidegauge.wire.events import NDJSON

LONG, FITS = "n" * 13, "n" * 12
THREE, WAITED = "/v1/streams/tests/three", "/v1/streams/tests/waited"
GROUP = "/v1/reader-groups/tests/g"
MEMBERS = {"streams": ["tests/embedded"]}
LINE = b'{"key": "k", "value": "v"}\n'
LINES = {"content-type": NDJSON}
CUT = {0: 0, 1: 0, 2: 0}
LIMITS: dict[str, Any] = {
    "max_name_length": 12,
    "max_position_segments": 2,
    "max_writers_per_stream": 3,
    "max_streams": 4,
    "max_groups": 1,
    "max_long_polls": 1,
}
REFUSED: dict[str, list[Asked]] = {
    f"422 name_too_long: {LONG!r} has 13 characters; the limit is 12 (max_name_length)": [
        (f"PUT /v1/streams/tests/{LONG}", {"segments": 1}),
        (f"PUT /v1/streams/{LONG}/one", {"segments": 1}),
        (f"POST {ONE}/writers/{LONG}/register", {}),
        f"POST {ONE}/writers/{LONG}/note-time",
        (f"PUT /v1/reader-groups/tests/{LONG}", MEMBERS),
        (f"PUT /v1/reader-groups/{LONG}/g", MEMBERS),
        (f"POST {GROUP}/readers/{LONG}", {}),
        (f"POST {EMBEDDED}/events?writer={LONG}&note_time={TIME}", LINE, LINES),
    ],
    "422 too_many_segments: the position names 3 segments; the limit is 2: raise "
    "--max-position-segments or, in reports of writers and readers, name only the segments that "
    "changed": [
        (f"POST {ONE}/writers/a/note-time", {"time": TIME, "position": CUT}),
        (f"POST {ONE}/writers/a/leave", {"time": TIME, "position": CUT}),
        f"GET {EMBEDDED}/tail?after=0:1,1:1,2:1",
        f"GET {EMBEDDED}/marks/at?position=0:0,1:0,2:0",
        (f"POST {GROUP}/readers/r/position", {"epoch": 1, "position": {"tests/embedded": CUT}}),
        (f"DELETE {GROUP}/readers/r", {"epoch": 1, "position": {"tests/embedded": CUT}}),
        (f"PUT {GROUP}", MEMBERS | {"start_cut": {"tests/embedded": CUT}}),
    ],
    "409 too_many_writers: max_writers_per_stream": [
        f"POST {ONE}/writers/d/note-time",
        (f"POST {ONE}/writers/d/register", {}),
        (f"POST {EMBEDDED}/events?writer=d", LINE, LINES),
    ],
    "409 too_many_streams: there are 4 streams, which is the limit; delete some, or raise "
    "--max-streams": [("PUT /v1/streams/tests/five", {"segments": 1})],
    "409 too_many_groups: there are 1 reader groups, which is the limit; delete some, or raise "
    "--max-groups": [("PUT /v1/reader-groups/tests/h", MEMBERS)],
}
ANSWERED: dict[str, list[Asked]] = {
    "200": [
        (f"POST {ONE}/writers/c/register", {}),
        (f"POST {THREE}/writers/d/register", {}),
        (f"PUT {THREE}", {"segments": 1}),
        (f"PUT {GROUP}", MEMBERS),
        (f"POST {EMBEDDED}/events?writer=x", LINE, LINES),
        (f"POST {EMBEDDED}/events?writer={FITS}&note_time={TIME}", LINE, LINES),
    ]
}
"""What was there, or is within the limits."""


@pytest.fixture(scope="module")
def limited(
    new_database: NewDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    url = new_database(tmp_path_factory.mktemp("limits"))
    with served_in_process(ServeSettings(database_url=url, **LIMITS)) as service:
        yield service


@pytest.fixture(scope="module")
def client(limited: Service) -> Iterator[httpx.Client]:
    """A service with as many streams, writers and groups as it may have."""
    with Api(limited.url, transport=limited) as api:
        api.create(segments=3)
        for writer in ("a", "b", "c"):
            api.note(writer, TIME, 0)
        for stream, segments in ((EMBEDDED, 3), (THREE, 1), (WAITED, 1)):
            api.client.put(stream, json={"segments": segments}).raise_for_status()
        # Names that append count as writers, though they note nothing.
        for writer in (FITS, "x", "y"):
            _append(api.client, EMBEDDED, writer=writer)
        api.client.put(GROUP, json=MEMBERS).raise_for_status()
        yield api.client


def _append(client: httpx.Client, stream: str, **query: object) -> None:
    path, params = f"{stream}/events", {name: str(one) for name, one in query.items()}
    client.post(path, params=params, content=LINE, headers=LINES).raise_for_status()


@pytest.mark.parametrize("row", rows(REFUSED), ids=str)
def test_more_than_the_limit_is_refused_with_the_setting(
    client: httpx.Client, row: Row
) -> None:
    before = client.get(EMBEDDED).json()["tail"]
    row.check(row.send(client))
    assert client.get(EMBEDDED).json()["tail"] == before


@pytest.mark.parametrize("row", rows(ANSWERED), ids=str)
def test_what_is_within_the_limits_is_answered(client: httpx.Client, row: Row) -> None:
    assert row.send(client).status_code == 200


@pytest.mark.parametrize("part", ["readers", "checkpoints"])
def test_a_name_that_is_new_in_the_state_of_a_group(client: httpx.Client, part: str) -> None:
    new = {"readers": {"epoch": 1, "owned": {}}, "checkpoints": {}}[part]
    read = client.get(f"{GROUP}/state")
    state = read.json()
    state["epochs"] = 1
    state[part] = {LONG: new}
    etag = {"if-match": read.headers["etag"]}
    refused = client.put(f"{GROUP}/state", json=state, headers=etag)
    document = check_problem(refused, 422, "name_too_long")
    assert (document["name"], document["limit"]) == (LONG, 12)
    state[part] = {FITS: new}
    assert client.put(f"{GROUP}/state", json=state, headers=etag).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["marks?after=9", "tail?after=0:0&revision=9", "segments/0/events?start=0"],
)
def test_the_calls_that_wait_for_news(client: httpx.Client, path: str) -> None:
    call = f"{THREE}/{path}"
    with _somebody_waits(client):
        answer = client.get(f"{call}&wait_ms=1")
        document = check_problem(answer, 429, "too_many_waiting")
        assert document["limit"] == 1
        assert "max_long_polls" in document["detail"]
        assert answer.headers["retry-after"] == "1"
        assert client.get(f"{call}&wait_ms=0").status_code == 200
        assert client.get(f"{ONE}/marks?after=0&wait_ms=1").status_code == 200
    assert client.get(f"{call}&wait_ms=1").status_code == 200


@contextmanager
def _somebody_waits(client: httpx.Client) -> Iterator[None]:
    """Take the only seat for long polls, and leave it in the end."""
    end = client.get(f"{WAITED}/tail").json()["tail"]["0"]
    with ThreadPoolExecutor() as pool:
        pool.submit(client.get, f"{WAITED}/segments/0/events?start={end}&wait_ms=30000")
        wait_until(lambda: "\ntidegauge_long_polls 1.0\n" in client.get("/metrics").text)
        yield
        _append(client, WAITED)


def test_what_was_there_before_a_limit_was_lowered_goes_on(serve: Serve) -> None:
    with serve() as api:
        api.create(log="external", segments=2)
        api.note("a-long-name", TIME)
        api.note("b", TIME)
        api.client.put(EMBEDDED, json={"segments": 1}).raise_for_status()
        api.client.put(GROUP, json=MEMBERS).raise_for_status()
        api.client.post(f"{GROUP}/readers/a-long-name").raise_for_status()
    lowered = {"max_name_length": 2, "max_position_segments": 1, "max_streams": 1}
    with serve(**lowered, max_writers_per_stream=1) as api:
        assert api.note("a-long-name", TIME + 1)["state"] == "active"
        assert api.post("writers/b/register")["incarnation"] == 1
        assert api.create(log="external", segments=2)["stream"] == api.name
        assert api.client.post(f"{GROUP}/readers/a-long-name").json()["epoch"] == 2
        assert api.post("seal", position={0: 1, 1: 0})["final"] is True


def test_a_client_that_finds_no_seat_comes_again(
    limited: Service, client: httpx.Client
) -> None:
    soon = timedelta(milliseconds=1)
    with (
        limited.reached_by_clients(),
        StreamClient(limited.url, "tests/three") as patient,
        StreamClient(limited.url, "tests/three", retry_for=soon) as hasty,
        ThreadPoolExecutor() as pool,
    ):
        with _somebody_waits(client):
            with pytest.raises(TooManyWaitingError):
                hasty.tail(after={0: 0}, wait_ms=1)
            refused = _refused_tails(client)
            patient_answer = pool.submit(patient.tail, after={0: 0}, wait_ms=1)
            wait_until(lambda: _refused_tails(client) > refused)
        assert patient_answer.result(PATIENCE_S).tail == {0: 0}


def _refused_tails(client: httpx.Client) -> int:
    pattern = r'long_poll_duration_seconds_count\{route="[^"]*/tail",status="4xx"\} (\d+)'
    return int(re.findall(pattern, client.get("/metrics").text)[0])
