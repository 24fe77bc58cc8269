"""A service of the demo's own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.flights.waiting import DemoFailedError

_STOP_S = 15  # more than what it still answers takes


@contextmanager
def running_service(folder: Path) -> Iterator[str]:
    """Serve a new database in a folder, on a free port; yields the URL."""
    command = [sys.executable, "-m", "tidegauge_cli", "serve", "--port=0"]
    options = [f"--database-url=sqlite:///{folder / 'demo.db'}", "--log-level=warning"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            urls = (re.search(r"http://\S+", line) for line in process.stdout or ())
            url = next(filter(None, urls), None)
            if url is None:
                msg = f"tidegauge serve ended with status {process.wait()}"
                raise DemoFailedError(msg)
            yield url[0]
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
