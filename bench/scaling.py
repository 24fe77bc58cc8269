"""How long a writer waits while its segments split and merge."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench import servers
from reader_client import StreamClient
from writer_client import Writer

_SCALINGS = 200
_KEYS = [str(number) for number in range(16)]
"""So that every segment is written to."""
_STREAM = "bench/scaling"


def measure() -> Iterator[tuple[str, str, str]]:
    """Scale again and again, and take the longest that writing and flushing took meanwhile."""
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.service(Path(folder)) as url,
        StreamClient(url, _STREAM) as client,
        # Of its own, as an operator's is: what describes 300 segments would stop the writer, too.
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as operator,
    ):
        client.create(segments=4)
        operator.submit(_scale, url).result()
        with Writer(url, _STREAM, "bench") as writer:
            quiet = sorted(_flush(writer) for _ in range(_SCALINGS))
            stalls = sorted(
                _longest_while(writer, operator.submit(_scale, url)) for _ in range(_SCALINGS)
            )
    for what, times, goal in (
        ("16 events written and flushed, no scaling", quiet, "the baseline"),
        ("the longest while segments split or merge", stalls, "goal: p99 < 100 ms"),
    ):
        p50, p99 = statistics.median(times), times[int(len(times) * 0.99)]
        yield what, f"p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms", goal


def _scale(url: str) -> None:
    """Split the first of four segments, or merge the first two of five."""
    with StreamClient(url, _STREAM) as client:
        topology = client.topology()
        growing = sorted(topology.unsealed, key=lambda one: topology[one].key_range or (0, 0))
        if len(growing) == 4:  # as it began
            client.split(growing[0])
        else:
            client.merge(growing[:2])


def _longest_while(writer: Writer, scaling: Future[Any]) -> float:
    longest = 0.0
    while not scaling.done():
        longest = max(longest, _flush(writer))
    scaling.result()
    return max(longest, _flush(writer))  # the first that is certainly after it


def _flush(writer: Writer) -> float:
    started = time.perf_counter()
    for key in _KEYS:
        writer.write(b"x" * 100, key=key)
    writer.flush()
    return time.perf_counter() - started
