"""Metrics of the present: read when Prometheus asks, and not before.

A service may have ten thousand streams, and Prometheus keeps every series that it ever saw. So
totals are of all streams, and only so many streams have series of their own: those with live
writers first, and of them those that lag most.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from importlib.metadata import version
from itertools import islice
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller.commit.sequencer import Sequencer
from controller.commit.waiting import WaitingRoom
from controller.groups import Groups
from controller.metrics.counters import Metrics, counted
from controller.streams.judging import explain_briefly
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from tidegauge.aggregation.writers import Now
from tidegauge.states import WriterState
from tidegauge.wire.groups import NotedProgress

_AT_ONCE = 100  # streams: some milliseconds, in which nobody else has a turn
_STATES: tuple[WriterState, ...] = ("joining", "active", "behind", "expired", "left")


class StreamFigures(NamedTuple):
    """One stream in numbers."""

    state: StreamState
    lag_s: float | None
    """None for logical time, before the first mark, and after the last."""
    held_s: float
    """How long somebody has waited for a writer that does not go on."""
    silent_s: float
    """How long no writer has reported, once that stops the clocks."""
    writers: Counter[WriterState]
    kept_reports: int
    expirations: int
    hold_s: float

    @property
    def stream(self) -> str:
        """Its name."""
        return str(self.state.identity.name)


@dataclass(slots=True)
class Present:
    """All streams in numbers, as of one scrape."""

    shown: list[StreamFigures] = field(default_factory=list)
    """The streams that have series of their own."""
    troubles: list[tuple[str, str, bool]] = field(default_factory=list)
    """For each of those, and each trouble that it may have, whether it has it."""
    streams: int = 0
    writers: Counter[WriterState] = field(default_factory=Counter)
    kept_reports: int = 0


@dataclass(frozen=True, slots=True)
class Gauges:
    """Reads the metrics of the present."""

    _registry: Registry
    _groups: Groups
    _sequencer: Sequencer
    _waiting: WaitingRoom
    most_series: int

    async def read(self) -> Present:
        """Read the figures of all streams, with turns for others in between."""
        present, limit = Present(), self.most_series
        now = self._registry.clocks.now()
        for index, state in enumerate(list(self._registry)):
            if index % _AT_ONCE == 0:
                await asyncio.sleep(0)
            figures = _figures(state, now)
            present.streams += 1
            present.writers.update(figures.writers)
            present.kept_reports += figures.kept_reports
            present.shown.append(figures)
            if len(present.shown) > 2 * limit + _AT_ONCE:  # kept short, but not at every step
                present.shown = nlargest(limit, present.shown, key=_urgency)
        present.shown = nlargest(limit, present.shown, key=_urgency)
        for index, figures in enumerate(present.shown):
            if index % _AT_ONCE == 0:
                await asyncio.sleep(0)
            present.troubles += _troubles(figures.state)
        return present

    def total_families(self, present: Present) -> Iterator[Metric]:
        """Return the totals, the groups, and what waits now as families of metrics."""
        documentation = (
            "What waits: changes for the next transaction, reads of memory for its end."
        )
        lengths = (([name], length) for name, length in self._sequencer.queues.items())
        yield _labelled("queue_length", documentation, ["queue"], lengths)
        groups = list(self._groups)
        for name, documentation, value in (
            ("long_polls", "Calls that wait for news.", len(self._waiting)),
            ("streams", "Streams.", present.streams),
            ("kept_reports", "Reports above the watermark.", present.kept_reports),
            ("groups", "Reader groups.", len(groups)),
        ):
            yield GaugeMetricFamily(f"tidegauge_{name}", documentation, value=value)
        writers = (([state], present.writers[state]) for state in _STATES)
        yield _labelled("writers", "Writers by state.", ["state"], writers)
        shown = islice(groups, self.most_series)
        readers = (([str(group.name)], len(group.state.readers)) for group in shown)
        yield _labelled("group_readers", "Readers of each group.", ["group"], readers)
        reported = (
            (str(group.name), progress)
            for group in groups
            if (progress := self._groups.progress_of(group)) is not None
        )
        yield from _progress_families(list(islice(reported, self.most_series)))


def _progress_families(shown: Sequence[tuple[str, NotedProgress]]) -> Iterator[Metric]:
    """Return what queries last reported of themselves; what one does not know has no series."""
    gauges: Iterable[tuple[str, str, Callable[[NotedProgress], float | None]]] = (
        ("bound_seconds", "Bound of the group's query.", lambda one: _seconds(one.bound)),
        (
            "lag_seconds",
            "Event time from the bound of the group's query to the watermark.",
            lambda one: _seconds(one.lag_ms),
        ),
        ("backlog_rows", "Rows the group's query has to read.", lambda one: one.backlog),
        ("state_bytes", "State of the group's query.", lambda one: one.state_bytes),
        (
            "late_by_seconds",
            "How late the latest row was that the group's query read.",
            lambda one: _seconds(one.late_by_ms),
        ),
    )
    for name, documentation, value_of in gauges:
        values = (([group], value_of(progress)) for group, progress in shown)
        yield _labelled(f"group_{name}", documentation, ["group"], values)
    counters: Iterable[tuple[str, str, Callable[[NotedProgress], float]]] = (
        ("late_rows", "Late rows that the group's query read.", lambda one: one.late),
        (
            "late_output_rows",
            "Rows that operators of the group's query handed to their late output.",
            lambda one: one.late_output,
        ),
        (
            "partially_late_rows",
            "Rows that only some of their windows took.",
            lambda one: one.partially_late,
        ),
    )
    for name, documentation, count_of in counters:
        counts = (([group], count_of(progress)) for group, progress in shown)
        yield counted(f"group_{name}", documentation, ["group"], counts)
    by_writer = (
        ([group, writer], rows)
        for group, progress in shown
        for writer, rows in progress.late_writers.items()
    )
    documentation = "Late rows by writer, of those that wrote most of them."
    yield counted("group_late_writer_rows", documentation, ["group", "writer"], by_writer)


def _seconds(span_ms: int | None) -> float | None:
    return None if span_ms is None else span_ms / 1_000


def stream_families(present: Present) -> Iterator[Metric]:
    """Return the figures of single streams as families of metrics; any thread may do it."""
    shown = present.shown
    writers = (([one.stream, state], one.writers[state]) for one in shown for state in _STATES)
    yield _labelled("stream_writers", "Writers by state.", ["stream", "state"], writers)
    table: Iterable[tuple[str, str, Callable[[StreamFigures], float | None]]] = (
        (
            "stream_watermark_lag_seconds",
            "Wall clock minus watermark, of streams whose times are wall clock.",
            lambda one: one.lag_s,
        ),
        (
            "stream_held_seconds",
            "How long somebody has waited since the newest mark; 5 minutes count of a gap between reports.",
            lambda one: one.held_s,
        ),
        (
            "stream_silent_seconds",
            "How long no writer has reported, once that stops the clocks of all; 0 before that.",
            lambda one: one.silent_s,
        ),
        ("stream_kept_reports", "Reports above the watermark.", lambda one: one.kept_reports),
    )
    for name, documentation, value_of in table:
        values = [([one.stream], value_of(one)) for one in shown]
        yield _labelled(name, documentation, ["stream"], values)
    troubles = (([stream, trouble], float(has)) for stream, trouble, has in present.troubles)
    documentation = "1 while a stream is in one of these states, which nothing else shows."
    yield _labelled("stream_state", documentation, ["stream", "state"], troubles)
    expirations = (([one.stream], one.expirations) for one in shown)
    yield counted("stream_expirations", "Writers that expired.", ["stream"], expirations)
    holds = (([one.stream], one.hold_s) for one in shown)
    documentation = "Time that somebody held the watermark, for longer than usual."
    yield counted("stream_hold_seconds", documentation, ["stream"], holds)
    yield GaugeMetricFamily(
        "tidegauge_streams_without_series",
        "Streams that are counted in totals only (metrics_streams).",
        value=present.streams - len(shown),
    )


@dataclass(frozen=True, slots=True)
class _Families(Collector):
    families: list[Metric]
    present: Present | None
    holds: bool

    def collect(self) -> Iterator[Metric]:
        runs = {"version": version("tidegauge")}
        yield InfoMetricFamily("tidegauge_build", "What runs.", value=runs)
        documentation = "1 at the controller that is certain to hold the database, 0 at others."
        yield GaugeMetricFamily("tidegauge_holds_database", documentation, value=self.holds)
        yield from self.families
        if self.present is not None:
            yield from stream_families(self.present)
        yield from ProcessCollector(registry=CollectorRegistry()).collect()


async def expose(metrics: Metrics, gauges: Gauges | None, *, holds: bool) -> bytes:
    """Write everything that Prometheus may know, in its text format; no gauges while standing by.

    Numbers are taken on the event loop, a little at a time; the text, which takes longer, is
    made in a thread.
    """
    families, present = list(metrics.families()), None
    if gauges is not None:
        present = await gauges.read()
        families += gauges.total_families(present)
    return await asyncio.to_thread(generate_latest, _Families(families, present, holds))


def _figures(state: StreamState, now: Now) -> StreamFigures:
    watermark = state.watermark
    timed = state.config.max_future_skew_ms is not None and not state.final
    seen = state.aggregator.inspect(now)
    return StreamFigures(
        state=state,
        lag_s=(now.wall_ms - watermark) / 1_000 if timed and watermark is not None else None,
        held_s=(seen.held_ms or 0) / 1_000,
        silent_s=(seen.silent_ms or 0) / 1_000,
        writers=seen.count_states(),
        kept_reports=state.aggregator.kept_reports,
        expirations=state.expirations,
        hold_s=state.hold_ms / 1_000,
    )


def _troubles(state: StreamState) -> Iterator[tuple[str, str, bool]]:
    """Say whether a stream is in a state of trouble that no other figure shows."""
    explanation, stream = explain_briefly(state), str(state.identity.name)
    yield stream, "odd_times", explanation.hint is not None
    yield stream, "too_few_writers", explanation.reason == "min_writers"
    yield stream, "no_live_writer", explanation.reason == "nobody_live"


def _urgency(figures: StreamFigures) -> tuple[bool, float]:
    """Order streams by how much they need to be seen."""
    writers = figures.writers
    live = writers["joining"] or writers["active"] or writers["behind"]
    return live > 0, figures.lag_s or 0.0


def _labelled(
    name: str,
    documentation: str,
    labels: Sequence[str],
    values: Iterable[tuple[Sequence[str], float | None]],
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"tidegauge_{name}", documentation, labels=labels)
    for of, value in values:
        if value is not None:
            family.add_metric(of, value)
    return family
