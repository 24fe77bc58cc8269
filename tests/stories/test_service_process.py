"""The process: quick and clean to stop, fair to writers while it is away."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.patience import PATIENCE_S, wait_until
from tests.server import ServerProcess
from tests.service.api import Api

LONGEST_WAIT_MS = 30_000
AWAY_S = 2.0
UNCERTAIN_MS = 1_000
"""The longest step between two stamps that listening time counts."""


def test_the_lock_is_gone_after_kill(server: ServerProcess) -> None:
    server.kill()
    server.start()
    assert httpx.get(f"{server.url}/healthz").json() == {"status": "ok"}


def test_a_setting_that_cannot_be_is_named() -> None:
    command = [sys.executable, "-m", "tidegauge_cli", "serve", "--port=99999"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == ("tidegauge serve: --port 99999: must be at most 65535\n")


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
    server.wait_for_waiting(1)
    assert answers == []
    os.kill(server.process.pid, how)
    assert server.process.wait(timeout=PATIENCE_S) == 0
    polling.join()
    assert answers == [[]]
    assert "Traceback" not in server.log.read_text()


def test_a_long_poll_wakes_with_its_mark_while_others_wait_on(
    server: ServerProcess, api: Api
) -> None:
    api.create()
    api.note("w", 1)
    seen: dict[int, list[int]] = {}

    def poll(after: int) -> None:
        with Api(server.url) as reader:
            marks = reader.get("marks", after=after, wait_ms=LONGEST_WAIT_MS)["marks"]
            seen[after] = [one["lower"] for one in marks]

    later, sooner = (threading.Thread(target=poll, args=(after,)) for after in (2, 1))
    for waiting, polling in enumerate((later, sooner), start=1):
        polling.start()
        server.wait_for_waiting(waiting)
    api.note("w", 2_001)
    sooner.join()
    assert later.is_alive()  # though its time is over before that of the other
    api.note("w", 4_001)
    later.join()
    assert seen == {1: [2_001], 2: [4_001]}


def test_time_in_which_the_machine_is_stopped_is_charged_to_nobody(
    server: ServerProcess, api: Api
) -> None:
    _let_slow_hold(api)
    with _charged_at_most_the_rest(api) as away:
        server.process.send_signal(signal.SIGSTOP)
        with away:
            time.sleep(AWAY_S)
        server.process.send_signal(signal.SIGCONT)
    _expire(api)


def test_an_outage_is_charged_to_nobody_and_a_restart_gives_no_fresh_start(
    server: ServerProcess, api: Api
) -> None:
    _let_slow_hold(api)
    wait_until(lambda: _held_ms(api) > 2 * UNCERTAIN_MS)
    with _charged_at_most_the_rest(api) as away:
        server.kill()
        with away:
            time.sleep(AWAY_S)
        server.start()
    _expire(api)


def _let_slow_hold(api: Api) -> None:
    api.create(aggregation_timeout_ms=3_600_000)
    api.note("slow", 10)
    api.note("quick", 50_000)


class Absence:
    """How long nobody could be heard."""

    seconds = 0.0

    def __enter__(self) -> None:
        self.seconds -= time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.monotonic()


@contextmanager
def _charged_at_most_the_rest(api: Api) -> Iterator[Absence]:
    """Check that the clock of the slow writer went on, but not while nobody could be heard."""
    away = Absence()
    began, before = time.monotonic(), _held_ms(api)
    yield away
    after = _held_ms(api)
    heard_ms = (time.monotonic() - began - away.seconds) * 1_000
    assert before - UNCERTAIN_MS <= after <= before + heard_ms + UNCERTAIN_MS


def _held_ms(api: Api) -> int:
    (holder,) = api.get("watermark")["explanation"]["holders"]
    assert (holder["writer"], holder["state"]) == ("slow", "behind")
    held: int = holder["silent_for_ms"]
    return held


def _expire(api: Api) -> None:
    """Let the time be over that a writer may hold."""
    api.change(aggregation_timeout_ms=1_000)
    gone = {"quick": "active", "slow": "expired"}
    wait_until(lambda: bool(api.note("quick", 50_000)) and _states(api) == gone)


def _states(api: Api) -> dict[str, str]:
    return {one["writer"]: one["state"] for one in api.get("writers")["writers"]}
