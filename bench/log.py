"""The embedded log: appending and reading through the clients."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from bench import servers
from reader_client import StreamClient
from writer_client import Writer

_EVENTS = 400_000
_VALUE = b"x" * 100
_STREAM = "bench/log"


def measure() -> Iterator[tuple[str, str, str]]:
    """Write events of 100 bytes, and read them back."""
    with tempfile.TemporaryDirectory() as folder, servers.service(Path(folder)) as url:
        httpx.put(f"{url}/v1/streams/{_STREAM}", json={"segments": 4}).raise_for_status()
        started = time.perf_counter()
        with Writer(url, _STREAM, "bench") as writer:
            for number in range(_EVENTS):
                writer.write(_VALUE, key=str(number % 1_000), event_time=number)
        yield "append with one Writer", _rate(started), "the client's Python is the bound"
        started = time.perf_counter()
        with StreamClient(url, _STREAM) as client:
            rows = sum(
                events.batch.num_rows
                for segment, end in client.tail().tail.items()
                for events in client.read(segment, 0, end)
            )
        if rows != _EVENTS:
            msg = f"read {rows} of {_EVENTS} events"
            raise AssertionError(msg)
        yield "read with StreamClient", _rate(started), "decompression and HTTP are the bound"


def _rate(started: float) -> str:
    per_second = _EVENTS / (time.perf_counter() - started)
    megabytes = per_second * len(_VALUE) / 1e6
    return f"{per_second:,.0f} rows/s, {megabytes:,.0f} MB/s of values"
