"""Processes that are measured: the real service, and a bare application as its baseline."""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

_POLL_S = 0.02
BARE = """
import socket, uvicorn
async def app(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})
listener = socket.create_server(("127.0.0.1", 0))
print("serving http://127.0.0.1:%d" % listener.getsockname()[1], flush=True)
config = uvicorn.Config(app, access_log=False, log_level="warning", lifespan="off")
uvicorn.Server(config).run(sockets=[listener])
"""


@contextmanager
def bare() -> Iterator[str]:
    """Serve an application that reads the body and answers 204."""
    with _running([sys.executable, "-c", BARE]) as (url, _):
        yield url


@contextmanager
def service(folder: Path) -> Iterator[str]:
    """Serve Tidegauge on the database of a folder, with logs and metrics as ever."""
    with process(folder) as (url, _):
        yield url


@contextmanager
def process(
    folder: Path, *options: str, database_url: str | None = None, stands_by: bool = False
) -> Iterator[tuple[str, psutil.Process]]:
    """Serve Tidegauge as `service` does, and show its process once it is ready, or stands by."""
    database = f"--database-url={database_url or sqlite_url(folder)}"
    with _running(
        [sys.executable, "-m", "tidegauge_cli", "serve", "--port=0", database, *options]
    ) as running:
        path = "/healthz" if stands_by else "/readyz"
        while httpx.get(f"{running[0]}{path}", timeout=60).is_error:
            time.sleep(_POLL_S)
        yield running


@contextmanager
def dashboard(url: str) -> Iterator[tuple[str, psutil.Process]]:
    """Show the dashboard of a service: its address, and its process."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tidegauge_cli", "ui", "--url", url, "--port", str(port)]
    with _running(command) as running:
        while not _listens(port):
            time.sleep(_POLL_S)
        yield running


def _listens(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz").is_success
    except httpx.ConnectError:
        return False


def sqlite_url(folder: Path) -> str:
    """Name the database of a folder."""
    return f"sqlite:///{folder / 'bench.db'}"


@contextmanager
def _running(command: list[str]) -> Iterator[tuple[str, psutil.Process]]:
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        for line in process.stdout or ():
            found = re.search(r"http://[^\s:]+:\d+", line)
            if found is not None:
                yield found[0], psutil.Process(process.pid)
                return
        sys.exit(f"{command} did not start")
    finally:
        process.terminate()
        process.wait()
