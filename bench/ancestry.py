"""What a stream costs with 1 000 scalings behind it, and windows at 1 000 calls a second."""

import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

import httpx
import psutil
import uvloop

from bench import servers
from bench.load import Generator
from tidegauge.names import key_hash
from tidegauge.positions import format_position

_SCALINGS = 1_000
_CALLS = 300
_FRESH, _SCALED = "bench/fresh", "bench/scaled"
_GROUP = "bench/readers"
_FIRST_MS = 1_700_000_000_000
_RATE, _SECONDS = 1_000, 5
_QUARTERS = [[0, 0.25], [0.25, 0.5], [0.5, 0.75], [0.75, 1]]
_Call = Callable[[str, int], httpx.Response]


def measure() -> Iterator[tuple[str, str, str]]:
    """Scale one of two streams that are written to alike, and ask both in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            servers.process(folder) as (url, process),
            httpx.Client(base_url=url, timeout=60) as client,
        ):
            calls = _Calls(client)
            yield from _grow(calls, process)
            yield from _ratios(calls)
            yield "memory after all that", f"{_megabytes(process):,.0f} MB", ""
            for group in ("fresh", "scaled"):
                yield _windows(url, f"{_GROUP}-{group}", f"bench/{group}")
        begun = time.perf_counter()
        with servers.process(folder) as (url, process):
            httpx.get(f"{url}/readyz", timeout=60).raise_for_status()
            seconds = time.perf_counter() - begun
            yield (
                "start with both streams",
                f"{seconds:.1f} s, {_megabytes(process):,.0f} MB",
                "",
            )


class _Calls:
    """What is asked of either stream."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._random = random.Random(0)
        self._time_ms = _FIRST_MS
        self._growing: dict[str, list[int]] = {}
        self._appended = {_FRESH: 0, _SCALED: 0}
        """In the last quarter of the hashes, which is not scaled."""
        self._cuts: dict[str, list[str]] = {}
        for stream in (_FRESH, _SCALED):
            settings = {"segments": 4, "mark_interval_ms": 0, "mark_resolution_ms": 0}
            self._send("PUT", f"/v1/streams/{stream}", json=settings)
            self._growing[stream] = [0, 1, 2, 3]
        # One key for each quarter of the hashes.
        found = {int(key_hash(f"key-{n}") * 4): f"key-{n}" for n in range(100)}
        self._lines = "".join(
            json.dumps({"key": key, "event_time": _FIRST_MS, "value": "x"}) + "\n"
            for key in found.values()
        )

    def scale(self, number: int) -> None:
        """Split the first of four segments, or merge the first two of five; write, and report."""
        growing = self._growing[_SCALED]
        seal, ranges = growing[:1], [[0, 0.125], [0.125, 0.25]]
        if number % 2:
            seal, ranges = growing[:2], [[0, 0.25]]
        body = {"seal": seal, "ranges": ranges}
        answer = self._send("POST", f"/v1/streams/{_SCALED}/scale", json=body).json()
        added = [one["number"] for one in answer["segments"]]
        self._growing[_SCALED] = added + growing[len(seal) :]
        for stream in (_FRESH, _SCALED):
            self.append(stream, number)
            self.report_tails(stream, number)

    def create_groups(self) -> None:
        """Let a group stand at the end of each stream."""
        for stream in (_FRESH, _SCALED):
            group = f"{_GROUP}-{stream.partition('/')[2]}"
            body = {"streams": [stream], "start": "latest"}
            self._send("PUT", f"/v1/reader-groups/{group}", json=body)
            marks = self._send("GET", f"/v1/streams/{stream}/marks?limit=1000").json()["marks"]
            self._cuts[stream] = [format_position(one["cut"]) for one in marks]

    def append(self, stream: str, _number: int) -> httpx.Response:
        self._appended[stream] += 1
        return self._send(
            "POST",
            f"/v1/streams/{stream}/events",
            content=self._lines,
            headers={"content-type": "application/x-ndjson"},
        )

    def report_tails(self, stream: str, _number: int) -> httpx.Response:
        return self._report(stream, None)

    def report(self, stream: str, _number: int) -> httpx.Response:
        return self._report(stream, {"3": self._appended[stream]})

    def _report(self, stream: str, position: dict[str, int] | None) -> httpx.Response:
        self._time_ms += 1
        body = {"time": self._time_ms, "position": position}
        return self._send("POST", f"/v1/streams/{stream}/writers/w/note-time", json=body)

    def bulk(self, stream: str, _number: int) -> httpx.Response:
        self._time_ms += 500
        position = {"3": self._appended[stream]}
        reports = [
            {"stream": stream, "writer": "w", "time": self._time_ms + n, "position": position}
            for n in range(500)
        ]
        self._time_ms += 500
        return self._send("POST", "/v1/note-times", json={"reports": reports})

    def register(self, stream: str, number: int) -> httpx.Response:
        return self._send("POST", f"/v1/streams/{stream}/writers/w-{number}/register", json={})

    def leave(self, stream: str, number: int) -> httpx.Response:
        body = {"incarnation": 1}
        return self._send("POST", f"/v1/streams/{stream}/writers/w-{number}/leave", json=body)

    def mark(self, stream: str, number: int) -> httpx.Response:
        newest = self._send("GET", f"/v1/streams/{stream}/watermark").json()["mark"]
        self.report(stream, number)
        return self._send("GET", f"/v1/streams/{stream}/marks?after={newest['revision']}")

    def window(self, stream: str, _number: int) -> httpx.Response:
        group = f"{_GROUP}-{stream.partition('/')[2]}"
        return self._send("GET", f"/v1/reader-groups/{group}/time-window?stream={stream}")

    def window_long_ago(self, stream: str, _number: int) -> httpx.Response:
        at = self._random.choice(self._cuts[stream])
        return self._send("GET", f"/v1/streams/{stream}/marks/at?position={at}")

    def start_of_a_time(self, stream: str, _number: int) -> httpx.Response:
        time_ms = self._random.randrange(_FIRST_MS, self._time_ms)
        return self._send("GET", f"/v1/streams/{stream}/marks/at?time={time_ms}")

    def tail(self, stream: str, _number: int) -> httpx.Response:
        return self._send("GET", f"/v1/streams/{stream}/tail")

    def describe(self, stream: str, _number: int) -> httpx.Response:
        return self._send("GET", f"/v1/streams/{stream}")

    def _send(self, method: str, path: str, **more: object) -> httpx.Response:
        return self._client.request(method, path, **more).raise_for_status()  # type: ignore[arg-type]


def _grow(calls: _Calls, process: psutil.Process) -> Iterator[tuple[str, str, str]]:
    before, begun = _megabytes(process), time.perf_counter()
    for number in range(_SCALINGS):
        calls.scale(number)
    calls.create_groups()
    each_ms = (time.perf_counter() - begun) / _SCALINGS * 1e3
    grown = _megabytes(process) - before
    yield (
        "a scaling, two appends and two reports",
        f"{each_ms:.1f} ms",
        f"{grown:,.0f} MB in all",
    )


def _ratios(calls: _Calls) -> Iterator[tuple[str, str, str]]:
    goal = " (goal ≤ 1.5)"
    asked: list[tuple[str, _Call, str]] = [
        ("note-time, and the mark that it makes", calls.report, goal),
        ("the same, at the tails", calls.report_tails, goal),
        ("500 reports in a request", calls.bulk, goal),
        ("the newest mark, a report, and its mark", calls.mark, goal),
        ("register", calls.register, ""),
        ("leave", calls.leave, ""),
        ("append of 4 events by key", calls.append, goal),
        ("a group's time window, at the tail", calls.window, goal),
        ("the window at an old position", calls.window_long_ago, goal),
        ("where a time starts and stops", calls.start_of_a_time, goal),
        ("tail", calls.tail, goal),
        ("describe", calls.describe, ", and grows with the topology"),
    ]
    for what, call, said in asked:
        fresh, scaled = _medians(call)
        ratio = f"{scaled / fresh:.2f} of the fresh stream's {fresh:.2f} ms{said}"
        yield what, f"{scaled:.2f} ms", ratio


def _medians(call: _Call) -> tuple[float, float]:
    """Call for both streams in turn; the medians, ms."""
    times: dict[str, list[float]] = {_FRESH: [], _SCALED: []}
    for number, stream in zip(range(2 * _CALLS), cycle(times)):
        begun = time.perf_counter()
        call(stream, number // 2)
        times[stream].append((time.perf_counter() - begun) * 1e3)
    return statistics.median(times[_FRESH]), statistics.median(times[_SCALED])


def _windows(url: str, group: str, stream: str) -> tuple[str, str, str]:
    idle = _Answers(uvloop.run(_ask(url, "/healthz")))
    path = f"/v1/reader-groups/{group}/time-window?stream={stream}"
    windows = _Answers(uvloop.run(_ask(url, path)))
    what = f"time-window of {group} at {_RATE:,} calls/s"
    return what, windows.text, f"goal: p99 ≤ 20 ms; /healthz at the same rate: {idle.text}"


class _Answers:
    """How long answers took."""

    def __init__(self, waits_s: list[float]) -> None:
        waits = sorted(waits_s)
        p50_ms, p99_ms = statistics.median(waits) * 1e3, waits[int(len(waits) * 0.99)] * 1e3
        self.text = f"p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms"


class _Same:
    """The same request again and again."""

    per_request, connections = 1, 64

    def __init__(self, path: str) -> None:
        self._text = f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()

    def request(self, _number: int) -> bytes:
        """Write it."""
        return self._text


async def _ask(url: str, path: str) -> list[float]:
    generator = Generator(url, _Same(path))
    await generator.connect()
    await generator.run(_RATE * _SECONDS, rate=_RATE, most_s=10 * _SECONDS)
    await generator.settle()
    generator.close()
    return generator.waits_s


def _megabytes(process: psutil.Process) -> float:
    return process.memory_info().rss / 1e6
