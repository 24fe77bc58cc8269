"""Durable reports over HTTP against a bare application: same load, body and connections.

The service asks for tokens, counts and logs, as it would on a network.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import httpx

from bench import servers
from controller.access.callers import Role
from controller.access.tokens import append_token, new_token
from tests.postgres import running_cluster

_CONNECTIONS = 32
_SECONDS = 5
_ROUNDS = 3
_STREAM = "bench/reports"

_SINGLE = """
local count = START
local headers = {["content-type"] = "application/json", ["authorization"] = "Bearer TOKEN"}
request = function()
    count = count + 1
    local body = string.format('{"time":%d,"position":{"0":%d}}', 1700000000000 + count, count)
    local path = "/v1/streams/bench/reports/writers/w" .. (count % 1000) .. "/note-time"
    return wrk.format("POST", path, headers, body)
end
"""
_BULK = """
local count = START
local headers = {["content-type"] = "application/json", ["authorization"] = "Bearer TOKEN"}
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


class _Round(NamedTuple):
    """Requests or reports a second, measured one after another."""

    bare: float
    single: float
    bulk: float


def measure() -> Iterator[tuple[str, str, str]]:
    """Load the service on each database, and the bare application, in turn and compare."""
    if shutil.which("wrk") is None:
        sys.exit("the load generator wrk is missing; get it with: apt-get install wrk")
    with (
        tempfile.TemporaryDirectory() as name,
        servers.bare() as bare_url,
        running_cluster(durable=True) as cluster,
    ):
        folder = Path(name)
        yield from _compare(folder, bare_url, "SQLite", servers.sqlite_url(folder), 0.28)
        yield from _compare(folder, bare_url, "PostgreSQL", cluster.database(), 0.22)


def _compare(
    folder: Path, bare_url: str, database: str, database_url: str, goal: float
) -> Iterator[tuple[str, str, str]]:
    with _guarded(folder, database_url) as (url, token):
        settings = {"log": "external", "segments": 1}
        header = {"authorization": f"Bearer {token}"}
        created = httpx.put(f"{url}/v1/streams/{_STREAM}", json=settings, headers=header)
        created.raise_for_status()
        single_script, bulk_script = (one.replace("TOKEN", token) for one in (_SINGLE, _BULK))
        rounds = [
            _Round(
                _load(bare_url, single_script, folder),
                _load(url, single_script, folder, start=10**7 * 2 * one),
                _load(url, bulk_script, folder, start=10**7 * (2 * one + 1)) * 500,
            )
            for one in range(_ROUNDS)
        ]
    bare, single, _ = _median(rounds, lambda one: one.single / one.bare)
    _, beside, bulk = _median(rounds, lambda one: one.bulk / one.single)
    yield (
        f"bare ASGI application, next to {database}",
        f"{bare:,.0f} requests/s",
        "the baseline",
    )
    yield (
        f"{database}: note-time, one report a request, durable, {_CONNECTIONS} connections",
        f"{single:,.0f} reports/s",
        f"{single / bare:.2f} of the bare application (goal ≥ {goal})",
    )
    yield (
        f"{database}: note-times, 500 reports a request, as many connections",
        f"{bulk:,.0f} reports/s",
        f"{bulk / beside:.1f} times the single ones (goal ≥ 12)",
    )


def _median(rounds: list[_Round], key: Callable[[_Round], float]) -> _Round:
    return sorted(rounds, key=key)[_ROUNDS // 2]


@contextmanager
def _guarded(folder: Path, database_url: str) -> Iterator[tuple[str, str]]:
    """Serve with a file of tokens; give the address and a token."""
    made = new_token("bench", {"bench": {Role.OPERATE, Role.WRITE}}, lasts=timedelta(days=1))
    file = folder / "tokens.toml"
    file.unlink(missing_ok=True)
    append_token(file, made.stored)
    tokens = f"--tokens={file}"
    with servers.process(folder, tokens, database_url=database_url) as (url, _):
        yield url, made.text


def _load(url: str, script: str, folder: Path, *, start: int = 0) -> float:
    """Load a server; times go on from ``start``, since none may go back."""
    path = folder / "load.lua"
    path.write_text(script.replace("START", str(start)))
    command = ["wrk", "-t1", f"-c{_CONNECTIONS}", f"-d{_SECONDS}s", "-s", str(path), url]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in shown:
        sys.exit(f"some requests were refused:\n{shown}")
    found = re.search(r"Requests/sec:\s*([\d.]+)", shown)
    if found is None:
        sys.exit(f"wrk says no rate:\n{shown}")
    return float(found[1])
