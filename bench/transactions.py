"""What a commit takes, and what open transactions cost others."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from pyarrow import ipc

from bench import servers
from tidegauge.names import key_hash
from tidegauge.wire.columns import EVENT_SCHEMA
from tidegauge.wire.events import ARROW

_EVENTS = 10_000
_SEGMENTS = 4
_ROUNDS = 60
_OPEN = 1_000
_CALLS = 1_500
_KEYS = [str(number) for number in range(1_000)]
_VALUE = b"x" * 100


def measure() -> Iterator[tuple[str, str, str]]:
    """Commit as much as is appended; then append and report beside open transactions."""
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.service(Path(folder)) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield from _measure_commits(_Stream(client, "bench/commits"))
        yield from _measure_others(
            _Stream(client, "bench/alone"), _Stream(client, "bench/beside")
        )


class _Stream:
    """A stream with a writer, over plain HTTP."""

    def __init__(self, client: httpx.Client, name: str) -> None:
        self.client = client
        self.path = f"/v1/streams/{name}"
        client.put(self.path, json={"segments": _SEGMENTS}).raise_for_status()
        self.post("/writers/w/register")
        self.sequence = 0

    def post(
        self, call: str, *, body: bytes | None = None, sequence: int = 1, **more: object
    ) -> Any:  # noqa: ANN401 (JSON)
        """Post JSON, or events."""
        headers = {"content-type": "application/json"}
        if body is not None:
            headers = {
                "content-type": ARROW,
                "tidegauge-writer": "w",
                "tidegauge-incarnation": "1",
                "tidegauge-sequence": str(sequence),
            }
        content: dict[str, Any] = {"content": body} if body is not None else {"json": more}
        answer = self.client.post(self.path + call, headers=headers, **content)
        return answer.raise_for_status().json()

    def append(self, body: bytes) -> None:
        """Append events to the first segment."""
        self.sequence += 1
        self.post("/segments/0/events", body=body, sequence=self.sequence)

    def staged(self, body: bytes) -> str:
        """Begin a transaction with events; tell its path."""
        begun = self.post("/transactions", writer="w", incarnation=1, timeout_ms=3_600_000)
        path = f"/transactions/{begun['id']}"
        self.post(f"{path}/segments/0/events", body=body)
        return path


def _measure_commits(stream: _Stream) -> Iterator[tuple[str, str, str]]:
    ours = [key for key in _KEYS if key_hash(key) * _SEGMENTS < 1]
    to_one, to_all = _arrow(_EVENTS, ours), _arrow(_EVENTS, _KEYS)
    appends, commits = [], []
    for _ in range(_ROUNDS):  # by turns, so that both meet the same machine
        appends.append(_timed(lambda: stream.append(to_one)))
        path = stream.staged(to_all)
        commits.append(_timed(lambda path=path: stream.post(f"{path}/commit")))  # type: ignore[misc]
    yield f"append of {_EVENTS} events to one segment", _p50(appends), "the baseline"
    ratio = statistics.median(commits) / statistics.median(appends)
    yield (
        f"commit of {_EVENTS} events in {_SEGMENTS} segments",
        _p50(commits),
        f"{ratio:.2f} times the append; goal: at most 2",
    )


def _measure_others(alone: _Stream, beside: _Stream) -> Iterator[tuple[str, str, str]]:
    ours = [key for key in _KEYS if key_hash(key) * _SEGMENTS < 1]
    body, staged = _arrow(10, ours), _arrow(10, _KEYS)
    for _ in range(_OPEN):
        beside.staged(staged)
    calls: dict[str, Callable[[_Stream], Any]] = {
        "append of 10 events": lambda stream: stream.append(body),
        "note-time": lambda stream: stream.post("/writers/w/note-time", time=1, incarnation=1),
    }
    for what, call in calls.items():
        times: dict[_Stream, list[float]] = {alone: [], beside: []}
        for _ in range(_CALLS):
            for stream, taken in times.items():
                taken.append(_timed(lambda stream=stream: call(stream)))  # type: ignore[misc] # noqa: B023 (called at once)
        ratio = statistics.median(times[beside]) / statistics.median(times[alone])
        yield f"{what}, none open", _p50(times[alone]), "the baseline"
        yield f"{what}, {_OPEN} open", _p50(times[beside]), f"{ratio:.2f}; goal: 1"


def _timed(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _p50(times: list[float]) -> str:
    return f"p50 {statistics.median(times) * 1e3:.2f} ms"


def _arrow(count: int, keys: list[str]) -> bytes:
    columns = [
        pa.array([keys[n % len(keys)] for n in range(count)], pa.string()),
        pa.array(range(count), pa.int64()),
        pa.array([_VALUE] * count, pa.binary()),
    ]
    with pa.BufferOutputStream() as sink:
        with ipc.new_stream(sink, EVENT_SCHEMA) as stream:
            stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=EVENT_SCHEMA))
        body: bytes = sink.getvalue().to_pybytes()
    return body
