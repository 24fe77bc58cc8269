"""The process: quick and clean to stop, fair to writers while it is away."""

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import httpx
import pytest

from tests.patience import PATIENCE_S
from tests.server import Api, ServerProcess


def test_the_lock_is_gone_after_kill(server: ServerProcess) -> None:
    server.kill()
    server.start()
    assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok"}


def test_a_setting_that_cannot_be_is_named() -> None:
    command = [sys.executable, "-m", "tidegauge_cli", "serve", "--port=99999"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "tidegauge serve: --port 99999: Input should be less than or equal to 65535\n"
    )


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
    assert server.process.wait(timeout=PATIENCE_S) == 0
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
