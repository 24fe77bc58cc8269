"""The aggregation core: time per report as writers and segments grow."""

import time
from collections.abc import Iterator

from bench.harness import Row, sized
from controller.serving.server import rest_collector
from tidegauge import Aggregator, Now, StreamSettings, Topology

_REPORTS = sized(200_000)
_WRITERS = sized(100_000)
_STUCK_MINUTES = 10


def measure() -> Iterator[Row]:
    """Compare many writers with few; and let one of many get stuck."""
    rest_collector()
    for segments in (1, 64):
        few, many = (_per_report_us(writers, segments) for writers in (100, _WRITERS))
        yield (
            f"a report, {_WRITERS:,} writers, {segments} segments",
            f"{many:.1f} µs",
            f"{many / few:.2f} of 100 writers' {few:.1f} µs (≤ 2)",
        )
    yield (
        f"reports kept while one writer is stuck, {_WRITERS:,} others report each 10 s",
        ", ".join(f"{count:,}" for count in _kept_while_one_is_stuck()),
        "after 2, 4, 6, 8, 10 minutes (levels off)",
    )


def _aggregator(writers: int, segments: int) -> tuple[Aggregator, list[str]]:
    settings = StreamSettings(max_future_skew_ms=None, aggregation_timeout_ms=None)
    aggregator = Aggregator("bench/core", settings, Topology.of_equal_ranges(segments))
    names = [f"writer-{number}" for number in range(writers)]
    for name in names:
        aggregator.note_time(name, 1_000, {}, now=Now(0, 0))
    aggregator.run_pass(Now(0, 0))
    aggregator.take_changes()
    return aggregator, names


def _per_report_us(writers: int, segments: int) -> float:
    aggregator, names = _aggregator(writers, segments)
    started = time.perf_counter()
    for number in range(_REPORTS):
        now, position = Now(number, number), {number % segments: number}
        aggregator.note_time(names[number % writers], 2_000 + number, position, now=now)
        if number % 1_000 == 0:
            aggregator.run_pass(now)
            aggregator.take_changes()
    return (time.perf_counter() - started) / _REPORTS * 1e6


def _kept_while_one_is_stuck() -> Iterator[int]:
    aggregator, names = _aggregator(_WRITERS, 1)
    for ten_seconds in range(1, _STUCK_MINUTES * 6 + 1):
        now = Now(ten_seconds * 10_000, ten_seconds * 10_000)
        for name in names[1:]:
            aggregator.note_time(name, now.wall_ms, {}, now=now)
        aggregator.run_pass(now)
        aggregator.take_changes()
        if ten_seconds % 12 == 0:
            yield aggregator.kept_reports
