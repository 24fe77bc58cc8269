"""How long reports are refused when the controller that holds the database is killed, or stops."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import httpx
import psutil

from bench.harness import Row, serving, sized
from controller.metrics.health import READING
from tests.postgres import running_cluster

_FIRST_MS = 1_600_000_000_000
_CREATED_AT_ONCE = 32
_REPORTS_A_REQUEST = 500
_ROUNDS = 2
"""How often each writer reports before the holder ends."""
_ENDS = {"killed": psutil.Process.kill, "stopped": psutil.Process.terminate}
_POLL_S = 0.02
_MOST_S = 120


class _Crowd(NamedTuple):
    """Writers of so many streams; each report names so many segments."""

    streams: int
    writers: int  # of each stream
    segments: int  # of each stream
    named: int

    def __str__(self) -> str:
        return f"{self.streams:,} stream(s) of {self.writers:,} writers, {self.named} segment(s) each"


_CROWDS = (
    _Crowd(sized(10_000), 10, segments=4, named=1),
    _Crowd(1, sized(100_000), segments=1, named=1),
    _Crowd(1, sized(100_000), segments=64, named=64),
)


def measure() -> Iterator[Row]:
    """Let a crowd report to one controller, and another one take over."""
    with running_cluster(durable=True) as cluster:
        for crowd in _CROWDS:
            database = cluster.database()
            with serving(database) as (url, _):
                _fill(url, crowd)
            for how, end in _ENDS.items():
                yield f"{crowd}: the holder is {how}", *_take_over(database, end)


def _fill(url: str, crowd: _Crowd) -> None:
    """Create the streams, and let all writers report."""
    settings = {"log": "external", "segments": crowd.segments}
    numbers = range(_ROUNDS * crowd.streams * crowd.writers)
    with (
        httpx.Client(base_url=url, timeout=60) as client,
        ThreadPoolExecutor(_CREATED_AT_ONCE) as pool,
    ):
        paths = [f"/v1/streams/{_stream(number)}" for number in range(crowd.streams)]
        for answer in pool.map(partial(client.put, json=settings), paths):
            answer.raise_for_status()
        for begin in numbers[::_REPORTS_A_REQUEST]:
            part = numbers[begin : begin + _REPORTS_A_REQUEST]
            reports = [_report(crowd, number) for number in part]
            answer = client.post("/v1/note-times", json={"reports": reports})
            if any(result["status"] != 200 for result in answer.json()["results"]):
                msg = f"a report was refused: {answer.text}"
                raise RuntimeError(msg)


def _stream(number: int) -> str:
    return f"bench/crowd-{number}"


def _report(crowd: _Crowd, number: int) -> dict[str, object]:
    """Make a report; the streams take turns."""
    turn, stream = divmod(number, crowd.streams)
    first, writer = divmod(turn, crowd.writers)
    segments = ((first + at) % crowd.segments for at in range(crowd.named))
    return {
        "stream": _stream(stream),
        "writer": f"writer-{writer}",
        "time": _FIRST_MS + number // 10,
        "position": {str(segment): number for segment in segments},
    }


def _take_over(database: str, end: Callable[[psutil.Process], None]) -> tuple[str, str]:
    """End the holder; say when the standby had the lease, was ready, and took a report."""
    with (
        serving(database) as (_, holder),
        serving(database, stands_by=True) as (url, standby),
    ):
        before, begun = standby.cpu_times(), time.perf_counter()
        end(holder)
        lease_s = _wait(lambda: _has_lease(url)) - begun
        ready_s = _wait(lambda: httpx.get(f"{url}/readyz").is_success) - begun
        answer_s = _wait(lambda: _takes_report(url)) - begun
        processor_s = sum(standby.cpu_times()[:2]) - sum(before[:2])
    return (
        f"the lease after {lease_s:.1f} s, {ready_s - lease_s:.1f} s of reading",
        f"first report after {answer_s:.1f} s; {processor_s:.1f} s of processor",
    )


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


def _takes_report(url: str) -> bool:
    path = f"{url}/v1/streams/{_stream(0)}/writers/newcomer/note-time"
    report = {"time": _FIRST_MS, "position": {}}
    return httpx.post(path, json=report, timeout=_MOST_S).is_success
