"""The process: it starts or says why not, ends quickly and cleanly, and says what in it has died."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S, wait_until
from tests.server import LAUNCHER, OFTEN_LOOKING, ServerProcess
from tests.service.api import Api
from tests.tokens import Tokens

MORTAL = """
def fail(*_, **__):
    raise RuntimeError("seeded")

"""
BROKEN_START = f"""{MORTAL}
from controller.streams.registry import Registry
Registry.restore_all = fail
{LAUNCHER}
"""
MORTAL_CLOCK = f"""{MORTAL}
from controller.clocks import ListeningClock
ListeningClock.stamp = fail
{LAUNCHER}
"""
MORTAL_SEQUENCER = f"""{MORTAL}
from controller.commit.sequencer import Sequencer
Sequencer._take = fail
{LAUNCHER}
"""
MORTAL_GUARD = f"""{MORTAL}
from controller.access.changes import Rereading
Rereading.check = fail
{OFTEN_LOOKING}
"""


@pytest.mark.parametrize(
    ("how", "delay_ms"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGTERM, 200)]
)
def test_a_signal_answers_long_polls_and_ends_with_code_0_once_the_delay_is_over(
    new_server: NewServer, how: signal.Signals, delay_ms: int
) -> None:
    with new_server(shutdown_delay_ms=delay_ms) as server, Api(server.url) as api:
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


def test_after_sigterm_it_is_not_ready_but_serves_while_the_delay_lasts(
    new_server: NewServer,
) -> None:
    with new_server(shutdown_delay_ms=600_000) as server, Api(server.url) as api:
        api.create()
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: _reasons(server, "/readyz") == ["the service is shutting down"])
        time.sleep(0.3)  # the server looks ten times a second whether to stop
        assert httpx.get(f"{server.url}/healthz").is_success
        assert api.note("v", 1)["state"] == "active"


def test_a_start_that_fails_ends_the_process(new_server: NewServer) -> None:
    said = new_server(launcher=BROKEN_START).refusal()
    assert "RuntimeError: seeded" in said
    assert "the service could not start; its log says why" in said


@pytest.mark.parametrize(
    ("launcher", "name"),
    [
        (MORTAL_CLOCK, "stamping listening time"),
        (MORTAL_SEQUENCER, "the sequencer"),
        (MORTAL_GUARD, "reading files again"),
    ],
)
def test_work_that_ended_in_the_background_makes_it_dead(
    new_server: NewServer, tmp_path: Path, launcher: str, name: str
) -> None:
    mortal = new_server(launcher=launcher, tokens=Tokens(tmp_path).file)
    mortal.launch()
    try:
        said = [f"{name} has ended; the log says why"]
        wait_until(lambda: _reasons(mortal, "/healthz") == said)
        assert _reasons(mortal, "/readyz") == said
        assert mortal.log.read_text().count("RuntimeError: seeded") == 1
    finally:
        mortal.kill()


def _reasons(server: ServerProcess, path: str) -> list[str]:
    """Ask a probe why; nobody may listen yet."""
    try:
        answer = httpx.get(f"{server.url}{path}", timeout=PATIENCE_S)
    except httpx.ConnectError:
        return []
    reasons: list[str] = answer.json().get("reasons", [])
    return reasons
