"""Servers forked from a process that has imported everything once, so that starts are quick."""

import multiprocessing
import os
import signal
import subprocess
from pathlib import Path
from typing import Protocol

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.preloaded", __name__])
_ROOT = Path(__file__).parents[1]


class RunningProcess(Protocol):
    """What tests do with a process, as `subprocess.Popen` names it."""

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """Tell its exit code if it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and tell its exit code."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal."""

    def kill(self) -> None:
        """End it as a power cut would."""


class Fork:
    """A process that runs Python code as a fresh interpreter would.

    Parameters
    ----------
    code
        What it runs.
    environment
        All its environment variables.
    log
        Where what it says is appended.
    """

    def __init__(self, code: str, environment: dict[str, str], log: Path) -> None:
        # A daemon, so that one which a test forgot ends with the tests.
        arguments = (code, environment, log)
        self._process = _FORKING.Process(target=_run, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Tell its exit code if it has ended."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and tell its exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0)
        return self._process.exitcode

    def send_signal(self, sig: int) -> None:
        """Send it a signal."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.send_signal(signal.SIGKILL)


def _run(code: str, environment: dict[str, str], log: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(_ROOT)
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    exec(compile(code, "<launcher>", "exec"), {"__name__": "__main__"})
