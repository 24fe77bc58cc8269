"""A service of the example's own."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.flights.waiting import FlightsError


@contextmanager
def running_service(folder: Path) -> Iterator[str]:
    """Run ``tidegauge serve`` on a new database in a folder, on a free port; return the URL."""
    command = [
        sys.executable,
        "-m",
        "tidegauge_cli",
        "serve",
        "--port=0",
        "--log-level=warning",
    ]
    database = f"--database-url=sqlite:///{folder / 'tidegauge.db'}"
    with subprocess.Popen([*command, database], stdout=subprocess.PIPE, text=True) as process:
        try:
            urls = (re.search(r"http://\S+", line) for line in process.stdout or ())
            url = next(filter(None, urls), None)
            if url is None:
                msg = f"tidegauge serve ended with status {process.wait()}"
                raise FlightsError(msg)
            yield url[0]
        finally:
            process.terminate()
