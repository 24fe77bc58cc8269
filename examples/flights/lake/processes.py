"""A job of the chain as a process of its own, which is killed and started again."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from examples.flights.lake.jobs import Lake
from examples.flights.waiting import DemoFailedError


class JobProcess:
    """The process of one job, and its JVM.

    Parameters
    ----------
    name
        Of the job, and of the table that it writes.
    lake
        Where that is.
    jars
        The folder of Delta's jars.
    log
        The file for what it and its JVM say.
    """

    def __init__(self, name: str, lake: Lake, jars: Path, log: Path) -> None:
        self.name = name
        self._lake, self._jars, self._log = lake, jars, log
        log.unlink(missing_ok=True)
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again, with the same command."""
        command = [sys.executable, "-m", "examples.flights.lake.jobs", self.name]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._lake.folder), self._lake.url, str(self._jars)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def check(self) -> None:
        """Raise `DemoFailedError` if it has ended."""
        status = self._process.poll()
        if status is not None:
            last = self._log.read_text(errors="replace").strip()[-1_000:]
            msg = f"the job of {self.name} ended with status {status}; {self._log} ends with: {last}"
            raise DemoFailedError(msg)

    def batch_now(self) -> int | None:
        """Find the number of the batch that it is in; None if it is between two."""
        checkpoint = Path(self._lake.checkpoint(self.name))
        planned, done = (
            max((int(one.name) for one in (checkpoint / part).glob("[0-9]*")), default=-1)
            for part in ("offsets", "commits")
        )
        return planned if planned > done else None

    def kill(self) -> None:
        """Kill it and its JVM, as ``kill -9`` does, wherever they are."""
        assert self._process.stdout is not None  # noqa: S101 (a pipe)
        jvm = self._process.stdout.readline()
        self._process.kill()
        with suppress(ProcessLookupError, ValueError):
            os.kill(int(jvm), signal.SIGKILL)
        self._process.stdout.close()
        self._process.wait()
