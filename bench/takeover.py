"""How long nobody takes reports when the controller that holds the database is killed, or stops."""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import uvloop

from bench import filling, servers
from bench.load import Crowd
from tests.postgres import running_cluster

_MARKS = 10_000_000
_FIRST_MS = 1_600_000_000_000
_CROWD = Crowd(
    streams=1, writers=100_000, segments=64, named=64, first_ms=_FIRST_MS + _MARKS * 1_000
)
_STREAM = _CROWD.stream(0)
_FILL = """
INSERT INTO marks (stream_key, revision, lower, upper, cut, created_ms)
SELECT key, n, {first} + n * 1000, {first} + n * 1000, '{{"0":0}}', {first}
FROM streams, generate_series(1::bigint, {count}) AS n
"""
_POLL_S = 0.02


def measure() -> Iterator[tuple[str, str, str]]:
    """Let one controller take in years of marks and a crowd, and another take over."""
    with tempfile.TemporaryDirectory() as name, running_cluster(durable=True) as cluster:
        folder, database = Path(name), cluster.database()
        with servers.process(folder, database_url=database) as (url, _):
            settings = {"log": "external", "segments": _CROWD.segments}
            httpx.put(f"{url}/v1/streams/{_STREAM}", json=settings).raise_for_status()
        with cluster.connect(cluster.name_of(database)) as connection:
            connection.execute(_FILL.format(first=_FIRST_MS, count=_MARKS).encode())
        with servers.process(folder, database_url=database) as (url, _):
            uvloop.run(filling.let_report(url, _CROWD, 2))
        for how, end in (
            ("killed", psutil.Process.kill),
            ("stopped", psutil.Process.terminate),
        ):
            yield _take_over(folder, database, how, end)


def _take_over(
    folder: Path, database: str, how: str, end: Callable[[psutil.Process], None]
) -> tuple[str, str, str]:
    with servers.process(folder, database_url=database) as (url, holder):
        _wait_for_report(url, most_s=120)
        standby = servers.process(folder, database_url=database, stands_by=True)
        with standby as (other_url, other):
            before, begun = _cpu_s(other), time.perf_counter()
            end(holder)
            holder.wait()
            _wait_for_report(other_url, most_s=120)
            seconds, cpu_s = time.perf_counter() - begun, _cpu_s(other) - before
    what = f"the holder of 10 million marks and 100 000 writers is {how}"
    measured = f"{seconds:.1f} s until a report is taken elsewhere"
    return what, measured, f"{cpu_s:.1f} s of CPU; a lease lasts 3 s"


def _wait_for_report(url: str, *, most_s: float) -> None:
    """Report until it is accepted."""
    path = f"{url}/v1/streams/{_STREAM}/writers/newcomer/note-time"
    report = {"time": _CROWD.first_ms, "position": {}}
    deadline = time.perf_counter() + most_s
    while not httpx.post(path, json=report, timeout=most_s).is_success:
        if time.perf_counter() > deadline:
            raise TimeoutError(path)
        time.sleep(_POLL_S)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
