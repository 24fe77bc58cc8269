"""Durable reports over HTTP against a bare application: same load, body and connections.

The service asks for tokens, counts and logs, as it would on a network.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import harness
from bench.harness import Row, in_turn
from controller.access.callers import Role
from controller.access.tokens import append_token, new_token
from reader_client import StreamClient
from tests.postgres import running_cluster

_CONNECTIONS = 32
_SECONDS = 5
_ROUNDS = 3
_STREAM = "bench/reports"
_BULK_REPORTS = 500
_NUMBERS = count(step=10**7)
"""Where the times of a load begin: beyond those of the loads before, since no writer's may go back."""

_HEAD = """
local count = START
local headers = {["content-type"] = "application/json", ["authorization"] = "Bearer TOKEN"}
"""
_SINGLE = """
request = function()
    count = count + 1
    local body = string.format('{"time":%d,"position":{"0":%d}}', 1700000000000 + count, count)
    local path = "/v1/streams/bench/reports/writers/w" .. (count % 1000) .. "/note-time"
    return wrk.format("POST", path, headers, body)
end
"""
_BULK = """
request = function()
    local reports = {}
    for at = 1, 500 do
        count = count + 1
        reports[at] = string.format(
            '{"stream":"bench/reports","writer":"w%d","time":%d,"position":{"0":%d}}',
            count % 1000, 1700000000000 + count, count)
    end
    local body = '{"reports":[' .. table.concat(reports, ",") .. ']}'
    return wrk.format("POST", "/v1/note-times", headers, body)
end
"""


def measure() -> Iterator[Row]:
    """Load the service on each database, and the bare application, in turn and compare."""
    if shutil.which("wrk") is None:
        msg = "the load generator wrk is missing; get it with: apt-get install wrk"
        raise RuntimeError(msg)
    with (
        TemporaryDirectory() as folder,
        harness.bare() as bare_url,
        running_cluster(durable=True) as cluster,
    ):
        databases = {
            "SQLite": (f"sqlite:///{folder}/bench.db", 0.28),
            "PostgreSQL": (cluster.database(), 0.22),
        }
        for name, (database_url, goal) in databases.items():
            yield from _compare(Path(folder), bare_url, name, database_url, goal=goal)


def _compare(
    folder: Path, bare_url: str, name: str, database_url: str, *, goal: float
) -> Iterator[Row]:
    made = new_token("bench", {"bench": {Role.OPERATE, Role.WRITE}}, lasts=timedelta(days=1))
    tokens = folder / f"{name}.toml"
    append_token(tokens, made.stored)
    load = partial(_load, folder=folder, token=made.text)
    with harness.serving(database_url, f"--tokens={tokens}") as (url, _):
        with StreamClient(url, _STREAM, token=made.text) as client:
            client.create(log="external", segments=1)
        ways = {
            "bare": lambda: load(bare_url, _SINGLE),
            "single": lambda: load(url, _SINGLE),
            "bulk": lambda: load(url, _BULK) * _BULK_REPORTS,
        }
        rates = in_turn(ways, rounds=_ROUNDS)
    yield (
        f"bare ASGI application, next to {name}",
        f"{rates.median('bare'):,.0f} requests/s",
        "the baseline",
    )
    yield (
        f"{name}: note-time, one report a request, durable, {_CONNECTIONS} connections",
        f"{rates.median('single'):,.0f} reports/s",
        f"{rates.ratio('single', 'bare'):.2f} of the bare application (≥ {goal})",
    )
    yield (
        f"{name}: note-times, {_BULK_REPORTS} reports a request, as many connections",
        f"{rates.median('bulk'):,.0f} reports/s",
        f"{rates.ratio('bulk', 'single'):.1f} times the single ones (≥ 12)",
    )


def _load(url: str, script: str, folder: Path, token: str) -> float:
    """Load a server; return requests a second."""
    path = folder / "load.lua"
    text = (_HEAD + script).replace("START", str(next(_NUMBERS)))
    path.write_text(text.replace("TOKEN", token))
    command = ["wrk", "-t1", f"-c{_CONNECTIONS}", f"-d{_SECONDS}s", "-s", str(path), url]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate = re.search(r"Requests/sec:\s*([\d.]+)", output)
    if rate is None or "Non-2xx" in output:
        msg = f"wrk shows no rate, or requests were refused:\n{output}"
        raise RuntimeError(msg)
    return float(rate[1])
