"""What a dashboard asks: all streams explained in one call, and the slowest of many writers."""

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import uvloop

from bench import filling, servers
from bench.load import Crowd

_STREAMS = Crowd(1_000, 10, segments=4, named=1, first_ms=1_600_000_000_000)
_WRITERS = Crowd(1, 100_000, segments=4, named=1, first_ms=1_600_000_000_000)
_CALLS = 15
_ALL, _PAGE = {"limit": "1000"}, {"limit": "100"}
_Query = Mapping[str, str]


def measure() -> Iterator[tuple[str, str, str]]:
    """Serve the streams, and then the writers, and ask for both again and again."""
    yield _compared(
        _STREAMS,
        "/v1/streams",
        _ALL,
        {**_ALL, "brief": "true", "explain": "true"},
        f"GET /v1/streams, {_STREAMS.streams:,} streams: brief and explained, and as ever",
    )
    yield _compared(
        _WRITERS,
        f"/v1/streams/{_WRITERS.stream(0)}/writers",
        _PAGE,
        {**_PAGE, "order": "slowest", "positions": "false"},
        f"a page of 100 of {_WRITERS.writers:,} writers: the slowest, and by name",
    )


def _compared(
    crowd: Crowd, path: str, plain: _Query, asked: _Query, what: str
) -> tuple[str, str, str]:
    with tempfile.TemporaryDirectory() as name, servers.service(Path(name)) as url:
        uvloop.run(filling.create_crowd(url, crowd))
        uvloop.run(filling.let_report(url, crowd, 2))
        with httpx.Client(base_url=url, timeout=60) as client:
            before, first, sizes = [], [], []
            for _ in range(_CALLS):  # by turns, so that both have the same machine
                before.append(_answer_ms(client, path, plain)[0])
                took_ms, size = _answer_ms(client, path, asked)
                first.append(took_ms)
                sizes.append(size)
        new_ms, old_ms = statistics.median(first), statistics.median(before)
    measured = f"{new_ms:.1f} ms (longest {max(first):.1f}), {sizes[-1] / 1e3:.0f} KB"
    return what, f"{measured}; {old_ms:.1f} ms", f"{new_ms / old_ms:.2f} times"


def _answer_ms(client: httpx.Client, path: str, query: _Query) -> tuple[float, int]:
    begun = time.perf_counter()
    size = len(client.get(path, params=dict(query)).raise_for_status().content)
    return (time.perf_counter() - begun) * 1e3, size
