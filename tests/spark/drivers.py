"""Drivers in processes of their own, killed as a power cut would kill them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.quick_spark import quick_environment

_ROOT = Path(__file__).parents[2]
PATIENCE_S = 1_000
"""A driver starts a JVM, and others may run beside it."""
MOMENT = "TESTS_MOMENT"
"""The variable that says when a driver dies."""


@contextmanager
def driver(
    *arguments: str, log: Path, **environment: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run Python in a session of its own, and end all of it whatever happens."""
    with (
        log.open("ab") as said,
        subprocess.Popen(
            [sys.executable, *arguments],
            cwd=_ROOT,
            env=os.environ | quick_environment() | environment,
            stdout=said,
            stderr=said,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            kill(process)


def die_at(moment: str) -> None:
    """Kill the driver and its JVM, its process group, as a power cut would, if it was told to die then."""
    if os.environ.get(MOMENT) == moment:
        os.killpg(os.getsid(0), signal.SIGKILL)
        signal.pause()  # a worker of Spark is in a group of its own, and ends with the JVM


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a driver and its JVM."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def kill_later(process: "subprocess.Popen[bytes]", checkpoints: Path, seconds: float) -> None:
    """Kill a driver so long after one of its queries has done another batch."""
    before, deadline = commits(checkpoints), time.monotonic() + PATIENCE_S
    while process.poll() is None and commits(checkpoints) == before:
        assert time.monotonic() < deadline, "no batch was done"
        time.sleep(0.05)
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    kill(process)


def end_of(process: "subprocess.Popen[bytes]", log: Path) -> int:
    """Wait until a driver ends by itself or is killed, and tell its status."""
    status = process.wait(PATIENCE_S)
    assert status in {0, -signal.SIGKILL}, log.read_text()
    return status


def commits(checkpoints: Path) -> int:
    """Count the batches that are done, of the checkpoints in a folder."""
    return sum(1 for _ in checkpoints.glob("**/commits/[0-9]*"))
