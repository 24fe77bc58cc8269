"""Servers forked from a process that has imported everything once, so that starts are quick."""

import multiprocessing
import os
import signal
import subprocess
from pathlib import Path

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["tests.preloaded", __name__])
_ROOT = Path(__file__).parents[1]


class Fork:
    """A process that runs Python code as a fresh interpreter would; has what tests use of a `Popen`.

    What it says is appended to a log.
    """

    def __init__(self, code: str, environment: dict[str, str], log: Path) -> None:
        # A daemon, so that one which a test forgot ends with the tests.
        arguments = (code, environment, log)
        self._process = _FORKING.Process(target=_run, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0)
        return self._process.exitcode

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(code: str, environment: dict[str, str], log: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(_ROOT)
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    exec(compile(code, "<launcher>", "exec"), {"__name__": "__main__"})
