"""A real service for the demo: ``tidegauge serve`` in a process of its own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STOP_S = 15


class ServiceNotStartedError(RuntimeError):
    """The service of the demo did not come up."""


@contextmanager
def running_service(folder: Path) -> Iterator[str]:
    """Serve a new database in a folder, on a free port; yields the URL."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tidegauge_cli",
            "serve",
            "--port=0",
            f"--database-url=sqlite:///{folder / 'demo.db'}",
            "--log-level=warning",
        ],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield _url(process)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _url(process: "subprocess.Popen[str]") -> str:
    for line in process.stdout or ():
        found = re.search(r"http://\S+", line)
        if found is not None:
            return found[0]
    msg = f"tidegauge serve ended with status {process.wait()}"
    raise ServiceNotStartedError(msg)
