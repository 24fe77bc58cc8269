"""How long nobody takes reports when the controller that holds the database is killed, or stops."""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil
import uvloop

from bench import filling, servers
from bench.load import Crowd
from controller.metrics.health import READING
from tests.postgres import running_cluster

_FIRST_MS = 1_600_000_000_000
_CROWDS = {
    "10 000 streams of 10 writers": Crowd(10_000, 10, segments=4, named=1, first_ms=_FIRST_MS),
    "1 stream of 100 000 writers": Crowd(1, 100_000, segments=1, named=1, first_ms=_FIRST_MS),
    "the same, each writer in 64 segments": Crowd(
        1, 100_000, segments=64, named=64, first_ms=_FIRST_MS
    ),
}
_ENDS = {"killed": psutil.Process.kill, "stopped": psutil.Process.terminate}
_POLL_S = 0.02
_MOST_S = 120


class _TakeOver(NamedTuple):
    """When a standby had the lease, was ready, and took a report: seconds after the end began."""

    lease_s: float
    ready_s: float
    answer_s: float
    cpu_s: float


def measure() -> Iterator[tuple[str, str, str]]:
    """Let one controller take in a crowd, and another one take over."""
    with tempfile.TemporaryDirectory() as name, running_cluster(durable=True) as cluster:
        for crowd_name, crowd in _CROWDS.items():
            database = cluster.database()
            with servers.process(Path(name), database_url=database) as (url, _):
                uvloop.run(filling.create_crowd(url, crowd))
                uvloop.run(filling.let_report(url, crowd, 2))
            for how, end in _ENDS.items():
                found = _take_over(Path(name), database, crowd, end)
                reading_s = found.ready_s - found.lease_s
                yield (
                    f"{crowd_name}: the holder is {how}",
                    f"the lease after {found.lease_s:.1f} s, {reading_s:.1f} s of reading",
                    f"a report is taken after {found.answer_s:.1f} s; {found.cpu_s:.1f} s of CPU",
                )


def _take_over(
    folder: Path, database: str, crowd: Crowd, end: Callable[[psutil.Process], None]
) -> _TakeOver:
    standby = servers.process(folder, database_url=database, stands_by=True)
    with (
        servers.process(folder, database_url=database) as (_, holder),
        standby as (url, process),
    ):
        cpu_s, begun = _cpu_s(process), time.perf_counter()
        end(holder)
        lease_s = _wait(lambda: _has_lease(url)) - begun
        ready_s = _wait(lambda: httpx.get(f"{url}/readyz").is_success) - begun
        answer_s = _wait(lambda: _report(url, crowd)) - begun
        return _TakeOver(lease_s, ready_s, answer_s, _cpu_s(process) - cpu_s)


def _wait(is_so: Callable[[], bool]) -> float:
    """Ask until it is so, and return when that was."""
    deadline = time.perf_counter() + _MOST_S
    while not is_so():
        if time.perf_counter() > deadline:
            msg = f"no take-over within {_MOST_S} s"
            raise TimeoutError(msg)
        time.sleep(_POLL_S)
    return time.perf_counter()


def _has_lease(url: str) -> bool:
    answer = httpx.get(f"{url}/readyz")
    return answer.is_success or READING in answer.json()["reasons"]


def _report(url: str, crowd: Crowd) -> bool:
    path = f"{url}/v1/streams/{crowd.stream(0)}/writers/newcomer/note-time"
    report = {"time": crowd.first_ms, "position": {}}
    return httpx.post(path, json=report, timeout=_MOST_S).is_success


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
