"""What is more than the service was set to take is refused, with the setting that says so."""

import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from controller.configuration import ServeSettings
from reader_client import StreamClient
from tests.conftest import NewServer
from tests.patience import PATIENCE_S, wait_until
from tests.server import Api, ServerProcess
from tests.service.problems import check_problem
from tidegauge.errors import TooManyWaitingError

NOW = 1_700_000_000_000
LONG = "n" * 13
FITS = "n" * 12
ONE = "/v1/streams/tests/one"
EMBEDDED = "/v1/streams/tests/embedded"
GROUP = "/v1/reader-groups/tests/g"
LIMITS: dict[str, Any] = {
    "max_name_length": 12,
    "max_position_segments": 2,
    "max_writers_per_stream": 3,
    "max_streams": 3,
    "max_groups": 1,
    "max_long_polls": 1,
}


@pytest.fixture(scope="module")
def limited(new_server: NewServer) -> Iterator[ServerProcess]:
    with new_server(**LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def client(limited: ServerProcess) -> Iterator[httpx.Client]:
    """A service with as many streams, writers and groups as it may have."""
    with Api(limited.url) as api:
        api.create(segments=3)
        for writer in ("a", "b", "c"):
            api.note(writer, NOW, 0)
        api.client.put(EMBEDDED, json={"segments": 3}).raise_for_status()
        api.client.put("/v1/streams/tests/three", json={"segments": 1}).raise_for_status()
        group = {"streams": ["tests/embedded"]}
        api.client.put(GROUP, json=group).raise_for_status()
        yield api.client


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", f"/v1/streams/tests/{LONG}", {"segments": 1}),
        ("PUT", f"/v1/streams/{LONG}/one", {"segments": 1}),
        ("POST", f"{ONE}/writers/{LONG}/register", {}),
        ("POST", f"{ONE}/writers/{LONG}/note-time", {"time": NOW, "position": {}}),
        ("PUT", f"/v1/reader-groups/tests/{LONG}", {"streams": ["tests/embedded"]}),
        ("PUT", f"/v1/reader-groups/{LONG}/g", {"streams": ["tests/embedded"]}),
        ("POST", f"{GROUP}/readers/{LONG}", {}),
    ],
)
def test_the_name_of_anything_new(
    client: httpx.Client, method: str, path: str, body: dict[str, Any]
) -> None:
    document = check_problem(client.request(method, path, json=body), 422, "name_too_long")
    assert (document["name"], document["limit"]) == (LONG, 12)
    assert "max_name_length" in document["detail"]


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


def _append(client: httpx.Client, writer: str, **query: int) -> httpx.Response:
    return client.post(
        f"{EMBEDDED}/events",
        params={"writer": writer, **query},
        content='{"key": "k", "value": "v"}\n',
        headers={"content-type": "application/x-ndjson"},
    )


def _tail(client: httpx.Client) -> object:
    return client.get(EMBEDDED).json()["tail"]


def test_an_event_with_a_time_of_a_new_writer_counts_as_its_report(
    client: httpx.Client,
) -> None:
    before = _tail(client)
    check_problem(_append(client, LONG, note_time=NOW), 422, "name_too_long")
    assert _tail(client) == before
    assert _append(client, FITS, note_time=NOW).status_code == 200


def test_names_that_append_and_note_nothing_are_as_many_as_writers(
    client: httpx.Client,
) -> None:
    names = (FITS, "x", "y", "x")
    assert [_append(client, name).status_code for name in names] == [200] * 4
    before = _tail(client)
    document = check_problem(_append(client, "z"), 409, "too_many_writers")
    assert (document["stream"], document["limit"]) == ("tests/embedded", 3)
    assert _tail(client) == before


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{ONE}/writers/a/note-time", {"time": NOW, "position": {0: 1, 1: 1, 2: 1}}),
        ("POST", f"{ONE}/writers/a/leave", {"time": NOW, "position": {0: 1, 1: 1, 2: 1}}),
        ("GET", f"{EMBEDDED}/tail?after=0:1,1:1,2:1", None),
        ("GET", f"{EMBEDDED}/marks/at?position=0:0,1:0,2:0", None),
        (
            "POST",
            f"{GROUP}/readers/r/position",
            {"epoch": 1, "position": {"tests/embedded": {0: 0, 1: 0, 2: 0}}},
        ),
        (
            "DELETE",
            f"{GROUP}/readers/r",
            {"epoch": 1, "position": {"tests/embedded": {0: 0, 1: 0, 2: 0}}},
        ),
        (
            "PUT",
            GROUP,
            {
                "streams": ["tests/embedded"],
                "start_cut": {"tests/embedded": {0: 0, 1: 0, 2: 0}},
            },
        ),
    ],
)
def test_the_segments_that_one_position_names(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    answer = client.request(method, path, json=body)
    document = check_problem(answer, 422, "too_many_segments")
    assert (document["segments"], document["limit"]) == (3, 2)
    assert document["detail"] == (
        "the position names 3 segments; the limit is 2: raise --max-position-segments or, in "
        "reports of writers and readers, name only the segments that changed"
    )


def test_a_report_that_names_only_what_changed_is_taken(client: httpx.Client) -> None:
    for position in ({0: 1, 1: 1}, {2: 1}):
        report = {"time": NOW, "position": position}
        assert client.post(f"{ONE}/writers/b/note-time", json=report).status_code == 200
    writers = client.get(f"{ONE}/writers").json()["writers"]
    assert writers[1]["position"] == {"0": 1, "1": 1, "2": 1}


def test_the_writers_of_one_stream(client: httpx.Client) -> None:
    report = {"time": NOW, "position": {}}
    noted = client.post(f"{ONE}/writers/d/note-time", json=report)
    document = check_problem(noted, 409, "too_many_writers")
    assert (document["stream"], document["limit"]) == ("tests/one", 3)
    assert "max_writers_per_stream" in document["detail"]
    registered = client.post(f"{ONE}/writers/d/register")
    assert check_problem(registered, 409, "too_many_writers") == document
    known = client.post(f"{ONE}/writers/c/register")
    assert known.status_code == 200
    many = {"reports": [{"stream": "tests/one", "writer": name, **report} for name in "da"]}
    first, second = client.post("/v1/note-times", json=many).json()["results"]
    assert first == document
    assert second["status"] == 200
    other = client.post("/v1/streams/tests/three/writers/d/register")
    assert other.status_code == 200


def test_the_streams_of_the_service(client: httpx.Client) -> None:
    four = client.put("/v1/streams/tests/four", json={"segments": 1})
    document = check_problem(four, 409, "too_many_streams")
    assert document["limit"] == 3
    assert document["detail"] == (
        "there are 3 streams, which is the limit; delete some, or raise --max-streams"
    )
    assert client.put("/v1/streams/tests/three", json={"segments": 1}).status_code == 200


def test_the_reader_groups_of_the_service(client: httpx.Client) -> None:
    group = {"streams": ["tests/embedded"]}
    two = client.put("/v1/reader-groups/tests/h", json=group)
    document = check_problem(two, 409, "too_many_groups")
    assert document["limit"] == 1
    assert document["detail"] == (
        "there are 1 reader groups, which is the limit; delete some, or raise --max-groups"
    )
    assert client.put(GROUP, json=group).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["marks?after=9", "tail?after=0:0&revision=9", "segments/0/events?start=0"],
)
def test_the_calls_that_wait_for_news(
    limited: ServerProcess, client: httpx.Client, path: str
) -> None:
    call = f"/v1/streams/tests/three/{path}"
    with _somebody_waits(limited):
        answer = client.get(f"{call}&wait_ms=1")
        document = check_problem(answer, 429, "too_many_waiting")
        assert document["limit"] == 1
        assert "max_long_polls" in document["detail"]
        assert answer.headers["retry-after"] == "1"
        assert client.get(f"{call}&wait_ms=0").status_code == 200
        assert client.get(f"{ONE}/marks?after=0&wait_ms=1").status_code == 200
    assert client.get(f"{call}&wait_ms=1").status_code == 200


def test_a_client_that_finds_no_seat_comes_again(
    limited: ServerProcess, client: httpx.Client
) -> None:
    soon = timedelta(milliseconds=1)
    with (
        StreamClient(limited.url, "tests/three") as patient,
        StreamClient(limited.url, "tests/three", retry_for=soon) as hasty,
        ThreadPoolExecutor() as pool,
    ):
        with _somebody_waits(limited):
            with pytest.raises(TooManyWaitingError):
                hasty.tail(after={0: 0}, wait_ms=1)
            refused = _refused_tails(limited)
            coming = pool.submit(patient.tail, after={0: 0}, wait_ms=1)
            wait_until(lambda: _refused_tails(limited) > refused)
        assert coming.result(PATIENCE_S).tail == {0: 0}


def _refused_tails(server: ServerProcess) -> int:
    found = re.search(
        r'long_poll_duration_seconds_count\{route="[^"]*/tail",status="4xx"\} (\d+)',
        server.metrics(),
    )
    assert found is not None
    return int(found[1])


@contextmanager
def _somebody_waits(server: ServerProcess) -> Iterator[None]:
    """Take the only seat, and hang up in the end."""
    request = f"GET {ONE}/marks?after=9&wait_ms=30000 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(request.encode())
        server.wait_for_waiting(1)
        yield
    server.wait_for_waiting(0)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("max_name_length", 0),
        ("max_name_length", 256),
        ("max_position_segments", 0),
        ("max_writers_per_stream", 0),
        ("max_streams", 0),
        ("max_groups", 0),
        ("max_long_polls", -1),
        ("max_body_bytes", 0),
    ],
)
def test_a_limit_that_cannot_be(setting: str, value: int) -> None:
    with pytest.raises(ValidationError, match=setting):
        ServeSettings.model_validate({setting: value})


def test_what_was_there_before_a_limit_was_lowered_goes_on(
    server: ServerProcess, api: Api
) -> None:
    api.create(segments=2)
    api.note("a-long-name", NOW)
    api.note("b", NOW)
    api.client.put(EMBEDDED, json={"segments": 1}).raise_for_status()
    api.client.put(GROUP, json={"streams": ["tests/embedded"]}).raise_for_status()
    api.client.post(f"{GROUP}/readers/a-long-name").raise_for_status()
    server.stop()
    lowered: dict[str, Any] = {
        "max_name_length": 2,
        "max_position_segments": 1,
        "max_streams": 1,
        "max_writers_per_stream": 1,
    }
    again = ServerProcess(server.directory, database_url=server.database_url, **lowered)
    with again, Api(again.url) as calls:
        assert calls.note("a-long-name", NOW + 1)["state"] == "active"
        assert calls.post("writers/b/register")["incarnation"] == 1
        assert calls.create(segments=2)["stream"] == "tests/one"
        assert calls.client.post(f"{GROUP}/readers/a-long-name").json()["epoch"] == 2
        assert calls.post("seal", position={0: 1, 1: 0})["final"] is True
