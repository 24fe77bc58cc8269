"""What Prometheus is told of the present: looked up when it asks, and not before.

A service may have ten thousand streams, and Prometheus keeps every series that it ever saw. So
totals are of all streams, and only so many streams have series of their own: those with live
writers first, and of them those that lag most.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import islice
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from controller.cluster import Ownership
from controller.commit.sequencer import Sequencer
from controller.commit.waiting import WaitingRoom
from controller.groups import Groups
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from tidegauge.aggregation.writers import Now, WriterState

_AT_ONCE = 100
_STATES: tuple[WriterState, ...] = ("joining", "active", "behind", "expired", "left")


class StreamFigures(NamedTuple):
    """One stream in numbers."""

    stream: str
    lag_s: float | None
    """None for logical time, before the first mark, and after the last."""
    held_s: float
    """How long somebody has waited for a writer that stands."""
    writers: Counter[WriterState]
    kept_reports: int
    expirations: int


@dataclass(slots=True)
class Present:
    """All streams that this controller has in memory in numbers, as of one scrape."""

    shown: list[StreamFigures] = field(default_factory=list)
    """The streams that have series of their own."""
    streams: int = 0
    writers: Counter[WriterState] = field(default_factory=Counter)
    kept_reports: int = 0
    leases: int = 0
    """Of how many it makes the marks: all, or none while another may have taken over."""

    def add(self, figures: StreamFigures) -> None:
        """Count a stream into the totals."""
        self.streams += 1
        for state, count in figures.writers.items():
            self.writers[state] += count
        self.kept_reports += figures.kept_reports


class Gauges:
    """Looks up what Prometheus is told of the present.

    Parameters
    ----------
    registry, groups
        Those that this controller holds.
    ownership
        Knows how many streams there are, and whether what is held is held for certain.
    sequencer, waiting
        Where changes, looks and long polls wait.
    most_series
        So many streams, and groups, have series of their own.
    """

    def __init__(  # noqa: PLR0913 (what is counted, and how much of it is shown)
        self,
        registry: Registry,
        groups: Groups,
        ownership: Ownership,
        sequencer: Sequencer,
        waiting: WaitingRoom,
        *,
        most_series: int,
    ) -> None:
        self._registry = registry
        self._groups = groups
        self._ownership = ownership
        self._sequencer = sequencer
        self._waiting = waiting
        self._most_series = most_series

    async def look(self) -> Present:
        """Look at all streams, letting others have their turn in between."""
        present, limit = Present(), self._most_series
        now = self._registry.clocks.now()
        for index, state in enumerate(list(self._registry)):
            if index % _AT_ONCE == 0:
                await asyncio.sleep(0)
            figures = _figures(state, now)
            present.add(figures)
            present.shown.append(figures)
            if len(present.shown) > 2 * limit + _AT_ONCE:  # kept short, but not at every step
                present.shown = nlargest(limit, present.shown, key=_urgency)
        present.shown = nlargest(limit, present.shown, key=_urgency)
        present.leases = present.streams if self._ownership.lease.is_certain else 0
        return present

    def total_families(self, present: Present) -> Iterator[GaugeMetricFamily]:
        """Lay out the totals, the groups, and what waits now.

        The number of streams is the same at every controller; all else is of what this one holds.
        """
        queues = _labelled(
            "queue_length",
            "What waits: changes for the next transaction, looks at memory for its end.",
            "queue",
        )
        queues.add_metric(["changes"], self._sequencer.queue_length)
        queues.add_metric(["looks"], self._sequencer.look_count)
        yield queues
        yield _gauge("long_polls", "Calls that wait for news.", len(self._waiting))
        streams = len(self._ownership.streams)
        yield _gauge("streams", "Streams, whoever makes their marks.", streams)
        yield _gauge(
            "leases_held", "Streams whose marks this controller makes.", present.leases
        )
        yield _gauge("kept_reports", "Reports above the watermark.", present.kept_reports)
        writers = _labelled("writers", "Writers by state.", "state")
        for state in _STATES:
            writers.add_metric([state], present.writers[state])
        yield writers
        groups = list(self._groups)
        yield _gauge("groups", "Reader groups.", len(groups))
        readers = _labelled("group_readers", "Readers of each group.", "group")
        for group in islice(groups, self._most_series):
            readers.add_metric([str(group.name)], len(group.state.readers))
        yield readers


def stream_families(present: Present) -> Iterator[Metric]:
    """Lay out what was looked up of single streams; any thread may do it."""
    lag = _labelled(
        "stream_watermark_lag_seconds",
        "Wall clock minus watermark, of streams whose times are wall clock.",
        "stream",
    )
    held = _labelled(
        "stream_held_seconds",
        "How long somebody has waited since the newest mark; 0 while nobody waits.",
        "stream",
    )
    writers = _labelled("stream_writers", "Writers by state.", "stream", "state")
    kept = _labelled("stream_kept_reports", "Reports above the watermark.", "stream")
    expirations = CounterMetricFamily(
        "tidegauge_stream_expirations", "Writers that expired.", labels=["stream"]
    )
    lease = _labelled(
        "stream_lease_held", "Whether this controller makes the stream's marks.", "stream"
    )
    for one in present.shown:
        if one.lag_s is not None:
            lag.add_metric([one.stream], one.lag_s)
        held.add_metric([one.stream], one.held_s)
        for state in _STATES:
            writers.add_metric([one.stream, state], one.writers[state])
        kept.add_metric([one.stream], one.kept_reports)
        expirations.add_metric([one.stream], one.expirations)
        lease.add_metric([one.stream], present.leases > 0)
    yield from (lag, held, writers, kept, lease, expirations)
    yield _gauge(
        "streams_without_series",
        "Streams that are counted in totals only (metrics_streams).",
        present.streams - len(present.shown),
    )


def _figures(state: StreamState, now: Now) -> StreamFigures:
    watermark = state.watermark
    timed = state.config.max_future_skew_ms is not None and not state.final
    seen = state.aggregator.inspect(now)
    return StreamFigures(
        stream=str(state.identity.name),
        lag_s=(now.wall_ms - watermark) / 1_000 if timed and watermark is not None else None,
        held_s=seen.held_ms / 1_000,
        writers=seen.count_states(),
        kept_reports=state.aggregator.kept_reports,
        expirations=state.expirations,
    )


def _urgency(figures: StreamFigures) -> tuple[bool, float]:
    """Order streams by how much they need to be seen."""
    writers = figures.writers
    live = writers["joining"] or writers["active"] or writers["behind"]
    return live > 0, figures.lag_s or 0.0


def _gauge(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tidegauge_{name}", documentation, value=value)


def _labelled(name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tidegauge_{name}", documentation, labels=labels)
