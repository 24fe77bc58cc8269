"""The log: one form for everything, with fields, tracebacks once, and no secrets."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import NewServer
from tests.patience import wait_until
from tests.server import LAUNCHER, ServerProcess
from tests.service.api import Api

pytestmark = pytest.mark.only_on("sqlite", "no database has a part in it")

NOW = 1_700_000_000_000
DEFECTIVE = """
from controller.streams import lifecycle, reports

def fail(*args, **more):
    password = "hunter2 is local"
    raise RuntimeError("seeded")

lifecycle.describe = reports.note_time = fail
"""
LOGGING = """
import logging, warnings
from controller.logs.setup import configure_logging
configure_logging("info", "text")
sent = {"stream": "a/\\x1b[31mb", "path": "/x\\nERROR \\u2028"}
logging.getLogger("tests").info("one\\nERROR two", extra=sent)
warnings.warn("look", stacklevel=1)
"""
Line = dict[str, Any]


def _lines(server: ServerProcess) -> list[Line]:
    """Read the log and what is printed: as a container's, all of it is JSON."""
    return [json.loads(line) for line in server.log.read_text().splitlines()]


def _wait_for_line(server: ServerProcess, wanted: Callable[[Line], bool]) -> Line:
    wait_until(lambda: any(map(wanted, _lines(server))))
    return next(filter(wanted, _lines(server)))


@pytest.fixture(scope="module")
def in_json(new_server: NewServer) -> Iterator[ServerProcess]:
    """A server that logs JSON."""
    with new_server(log_format="json") as server:
        yield server


def test_json_lines_name_the_database_and_the_address(in_json: ServerProcess) -> None:
    said = [line["message"] for line in _lines(in_json)]
    assert said[0].startswith("database ")
    assert f"serving  {in_json.url}  (docs: /docs)" in said


def test_json_lines_name_stream_and_writer(in_json: ServerProcess) -> None:
    with Api(in_json.url) as api:
        api.create(aggregation_timeout_ms=200)
        api.note("slow", NOW)

        def is_expired(one: Line) -> bool:
            api.note("quick", NOW + 5_000)
            return bool(one["message"] == "writer expired")

        line = _wait_for_line(in_json, is_expired)
    timestamp = line.pop("timestamp")
    assert line == {
        "message": "writer expired",
        "level": "warning",
        "logger": "controller.streams.stream",
        "stream": "tests/one",
        "writer": "slow",
    }
    assert timestamp.startswith("20")
    assert timestamp.endswith("Z")


def test_what_uvicorn_says_has_the_same_form(in_json: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", in_json.port)) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    line = _wait_for_line(in_json, lambda one: one["logger"] == "uvicorn.error")
    assert (line["level"], line["message"]) == ("warning", "Invalid HTTP request received.")


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_defect_is_logged_once_with_its_traceback_and_without_local_variables(
    new_server: NewServer, form: str
) -> None:
    launcher = DEFECTIVE + LAUNCHER
    with (
        new_server(launcher=launcher, log_format=form) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        path = "/v1/streams/tests/one"
        assert client.put(path, json={"log": "external"}).status_code == 500
        note = f"{path}/writers/w/note-time"
        for _ in range(3):
            answer = client.post(note, json={"time": NOW, "position": {}})
            assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
        many = {
            "reports": [{"stream": "tests/one", "writer": "w", "time": NOW, "position": {}}]
        }
        assert client.post("/v1/note-times", json=many).status_code == 500
        metrics = client.get("/metrics").text
        assert "tidegauge_defects_total 5.0\n" in metrics
        assert 'tidegauge_reports_total{outcome="internal_error"} 4.0\n' in metrics
        server.stop()
        log = server.log.read_text()
        assert log.count("RuntimeError: seeded") == 5
        assert log.count("request failed") == 5
        assert "Exception in ASGI application" not in log
        assert "hunter2" not in log
        if form == "json":
            failed = [line for line in _lines(server) if line["message"] == "request failed"]
            assert [(one.get("stream"), one.get("writer")) for one in failed] == [
                ("tests/one", None),
                ("tests/one", "w"),
                ("tests/one", "w"),
                ("tests/one", "w"),
                (None, None),
            ]


def test_what_callers_send_begins_no_line_of_its_own() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOGGING], capture_output=True, text=True, check=True
    )
    said = ran.stderr.splitlines()
    assert len(said) == 2
    assert "one\\x0aERROR two" in said[0]
    assert said[0].endswith("path='/x\\\\x0aERROR \\\\u2028' stream=a/\\x1b[31mb")
    assert "UserWarning: look" in said[1]
    assert not ran.stdout
