"""A real server process for tests: started, killed, stopped and looked into."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeAlias

import httpx
import pytest

from tests.nursery import Fork
from tests.patience import PATIENCE_S, wait_until

_PORTS = range(16_384, 32_768)
"""Below those that Linux gives to connections."""
LAUNCHER = (
    "from controller import serve; from tests.environment import settings; serve(settings())"
)
OFTEN_LOOKING = f"from controller.access import changes; changes._CHECK_S = 0.05; {LAUNCHER}"
"""For files that change while it serves."""


RunningProcess: TypeAlias = "Fork | subprocess.Popen[bytes]"


class ServerProcess:
    """``serve`` in a process of its own, on a free port.

    Parameters
    ----------
    directory
        Where its log goes.
    database_url
        What it serves; fixtures make databases of both kinds.
    port
        Where it listens; a free one by default.
    launcher
        Python code that serves; tests of seeded bugs bring their own.
    prefix
        Words of a program that runs Python, and looks into it.
    options
        Further settings, by the name of their environment variable without its prefix.
    """

    def __init__(
        self,
        directory: Path,
        *,
        database_url: str,
        port: int | None = None,
        launcher: str = LAUNCHER,
        prefix: tuple[str, ...] = (),
        **options: object,
    ) -> None:
        self.directory = directory
        self.database_url = database_url
        self.log = directory / "server.log"
        self.port = port or free_port()
        scheme = "https" if "tls_certificate" in options else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._launcher = launcher
        self._prefix = prefix
        self._environment = {
            **os.environ,
            "TIDEGAUGE_PORT": str(self.port),
            "TIDEGAUGE_DATABASE_URL": database_url,
            **{f"TIDEGAUGE_{name.upper()}": str(value) for name, value in options.items()},
        }
        self._process: RunningProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    @property
    def database(self) -> Path:
        """The file, of SQLite."""
        return Path(self.database_url.removeprefix("sqlite:///"))

    @property
    def process(self) -> RunningProcess:
        """The process that runs."""
        assert self._process is not None
        return self._process

    def launch(self) -> None:
        """Start without waiting."""
        if not self._prefix:
            self._process = Fork(self._launcher, self._environment, self.log)
            return
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, sys.executable, "-c", self._launcher],
                env=self._environment,
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[1],
            )

    def start(self) -> None:
        """Start, and wait until it answers."""
        self.launch()
        deadline = time.monotonic() + PATIENCE_S
        while not is_well(f"{self.url}/readyz"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the server does not start: {self.log.read_text()}")
            time.sleep(0.02)

    def refusal(self) -> str:
        """Start what will not serve; tell what it says."""
        self.launch()
        try:
            assert self.process.wait(timeout=PATIENCE_S) != 0
        finally:
            self.kill()
        return self.log.read_text()

    def wait_for_waiting(self, count: int) -> None:
        """Wait until so many calls wait for news."""
        wait_until(lambda: f"\ntidegauge_long_polls {count}.0\n" in self.metrics())

    def metrics(self) -> str:
        """Read its metrics."""
        return httpx.get(f"{self.url}/metrics", timeout=PATIENCE_S).text

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=PATIENCE_S)


def is_well(probe: str) -> bool:
    """Ask a server's probe, whoever vouches for it."""
    try:
        return httpx.get(probe, timeout=5, verify=False).is_success
    except httpx.TransportError:
        return False


def free_port() -> int:
    """Find a port that nobody listens on, and that no connection takes by itself meanwhile."""
    while True:
        port = _PORTS[secrets.randbelow(len(_PORTS))]
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
