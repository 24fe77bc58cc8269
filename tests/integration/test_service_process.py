"""The process: one a database, quick and clean to stop, fair to writers while it is away."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server import Api, ServerProcess


def test_a_second_server_on_the_same_file_refuses_and_names_the_process(
    server: ServerProcess,
) -> None:
    second = ServerProcess(server.directory)
    second.log = server.directory / "second.log"
    second.launch()
    assert second.process.wait(timeout=20) != 0
    said = second.log.read_text()
    assert f"is served by process {server.process.pid}" in said
    assert str(server.database) in said


def test_the_lock_is_gone_after_kill(server: ServerProcess) -> None:
    server.kill()
    server.start()
    assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok"}


def test_it_prints_the_absolute_path_of_its_database(server: ServerProcess) -> None:
    assert f"database {server.database.resolve()}\n" in server.log.read_text()


@pytest.mark.parametrize("url", ["postgresql://localhost/x", "nonsense", "sqlite://"])
def test_an_address_that_cannot_be_served_is_refused(tmp_path: Path, url: str) -> None:
    server = ServerProcess(tmp_path, database_url=url)
    server.launch()
    assert server.process.wait(timeout=20) != 0
    assert "write sqlite:///PATH" in server.log.read_text()


def test_a_setting_that_cannot_be_is_named() -> None:
    command = [sys.executable, "-m", "tidegauge_cli", "serve", "--port=99999"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "tidegauge serve: --port 99999: Input should be less than or equal to 65535\n"
    )


def test_a_file_of_another_schema_is_refused(server: ServerProcess) -> None:
    server.stop()
    with sqlite3.connect(server.database) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    server.launch()
    assert server.process.wait(timeout=20) != 0
    assert "has schema version 99" in server.log.read_text()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_answers_long_polls_and_ends_with_code_0(
    server: ServerProcess, api: Api, how: signal.Signals
) -> None:
    api.create()
    api.note("w", 1)
    answers: list[Any] = []
    polling = threading.Thread(
        target=lambda: answers.append(api.get("marks", after=1, wait_ms=30_000)["marks"])
    )
    polling.start()
    time.sleep(0.5)
    assert answers == []
    began = time.monotonic()
    os.kill(server.process.pid, how)
    assert server.process.wait(timeout=20) == 0
    polling.join()
    assert time.monotonic() - began < 5
    assert answers == [[]]
    assert "Traceback" not in server.log.read_text()


def test_a_long_poll_wakes_within_milliseconds_of_the_mark(
    server: ServerProcess, api: Api
) -> None:
    api.create()
    api.note("w", 1)
    delays = []
    with Api(server.url) as reader:
        for revision in range(1, 21):
            woken: list[float] = []

            def poll(after: int = revision, woken: list[float] = woken) -> None:
                marks = reader.get("marks", after=after, wait_ms=20_000)["marks"]
                assert [one["lower"] for one in marks] == [after * 2_000 + 1]
                woken.append(time.monotonic())

            polling = threading.Thread(target=poll)
            polling.start()
            time.sleep(0.03)
            noted = time.monotonic()
            api.note("w", revision * 2_000 + 1)
            polling.join()
            delays.append(woken[0] - noted)
    assert sorted(delays)[10] < 0.02


def test_a_stopped_machine_expires_nobody(server: ServerProcess, api: Api) -> None:
    api.create(aggregation_timeout_ms=3_000)
    api.note("slow", 10)
    api.note("quick", 50_000)
    assert _states(api) == {"quick": "active", "slow": "behind"}
    server.process.send_signal(signal.SIGSTOP)
    time.sleep(4)
    server.process.send_signal(signal.SIGCONT)
    assert _states(api) == {"quick": "active", "slow": "behind"}
    _wait_until(lambda: _states(api) == {"quick": "active", "slow": "expired"}, seconds=4)


def test_an_outage_expires_nobody_and_a_restart_gives_no_fresh_start(
    server: ServerProcess, api: Api
) -> None:
    api.create(aggregation_timeout_ms=2_500)
    api.note("slow", 10)
    api.note("quick", 50_000)
    time.sleep(1.5)
    server.kill()
    time.sleep(2.5)
    server.start()
    began = time.monotonic()
    assert _states(api) == {"quick": "active", "slow": "behind"}
    _wait_until(lambda: _states(api)["slow"] == "expired", seconds=4)
    assert time.monotonic() - began < 2.2


def _states(api: Api) -> dict[str, str]:
    return {one["writer"]: one["state"] for one in api.get("writers")["writers"]}


def _wait_until(condition: Any, *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
