"""Run what is measured: real services, and ways to do a thing in turn, so that all meet the same machine."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import httpx
import psutil

_SHORT = "BENCH_SHORT" in os.environ
_POLL_S = 0.02
_BARE = """
import socket, uvicorn
async def app(scope, receive, send):
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})
listener = socket.create_server(("127.0.0.1", 0))
print("serving http://127.0.0.1:%d" % listener.getsockname()[1], flush=True)
config = uvicorn.Config(app, access_log=False, log_level="warning", lifespan="off")
uvicorn.Server(config).run(sockets=[listener])
"""

Row = tuple[str, str, str]
"""What was measured, the figure, and its ratio to a baseline or its goal."""


def sized(count: int) -> int:
    """Return a count, or a tenth of it in the short form."""
    return count // 10 if _SHORT else count


class Rounds:
    """What each way took in each round.

    Parameters
    ----------
    rounds
        For each round, the figure of each way by its name.
    """

    def __init__(self, rounds: list[dict[str, float]]) -> None:
        self._rounds = rounds

    def median(self, way: str) -> float:
        """Return the median of a way."""
        return median(figures[way] for figures in self._rounds)

    def ratio(self, way: str, baseline: str) -> float:
        """Return the median of the ratios of a way to another one in the same round."""
        return median(figures[way] / figures[baseline] for figures in self._rounds)


def in_turn(
    ways: Mapping[str, Callable[[], float]], *, rounds: int, warm_up: int = 0
) -> Rounds:
    """Run all ways one after another, again and again; the rounds that warm up do not count."""
    count = warm_up + (1 if _SHORT else rounds)
    figures = [{name: way() for name, way in ways.items()} for _ in range(count)]
    return Rounds(figures[warm_up:])


def processor_seconds(work: Callable[[], object], root: psutil.Process | None = None) -> float:
    """Return the processor time that work took in a process, by default this one, and all that it started."""
    root = root or psutil.Process()
    before = _processor_seconds_so_far(root)
    work()
    return _processor_seconds_so_far(root) - before


def _processor_seconds_so_far(root: psutil.Process) -> float:
    while True:
        processes = (root, *root.children(recursive=True))
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile: its parent has its time now
            return sum(sum(process.cpu_times()[:4]) for process in processes)


@contextmanager
def bare() -> Iterator[str]:
    """Serve an application that reads the body and answers 204; return its address."""
    with _running([sys.executable, "-c", _BARE]) as (url, _):
        yield url


@contextmanager
def service() -> Iterator[tuple[str, Path]]:
    """Serve Tidegauge on SQLite in a temporary folder; return its address and the folder."""
    with (
        tempfile.TemporaryDirectory() as name,
        serving(f"sqlite:///{name}/bench.db") as (url, _),
    ):
        yield url, Path(name)


@contextmanager
def serving(
    database_url: str, *options: str, stands_by: bool = False
) -> Iterator[tuple[str, psutil.Process]]:
    """Serve Tidegauge; return its address and its process once it is ready, or stands by."""
    command = [sys.executable, "-m", "tidegauge_cli", "serve", "--port=0", *options]
    with _running([*command, f"--database-url={database_url}"]) as (url, process):
        path = "/healthz" if stands_by else "/readyz"
        while httpx.get(f"{url}{path}", timeout=60).is_error:
            time.sleep(_POLL_S)
        yield url, process


@contextmanager
def _running(command: list[str]) -> Iterator[tuple[str, psutil.Process]]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        for line in process.stdout or ():
            address = re.search(r"http://[^\s:]+:\d+", line)
            if address is not None:
                yield address[0], psutil.Process(process.pid)
                return
        msg = f"{command} did not start"
        raise RuntimeError(msg)
    finally:
        process.terminate()
        process.wait()
