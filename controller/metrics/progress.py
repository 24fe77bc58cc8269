"""Metrics of queries: what they last reported of themselves, for 5 minutes."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from tidegauge.wire.groups import NotedProgress


class GroupFigures(NamedTuple):
    """The query of one group."""

    group: str
    progress: NotedProgress


def progress_families(shown: Sequence[GroupFigures]) -> Iterator[Metric]:
    """Return what queries reported as families of metrics; what one does not know has no series."""
    gauges: tuple[tuple[str, str, Callable[[NotedProgress], float | None]], ...] = (
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
        gauge = GaugeMetricFamily(f"tidegauge_group_{name}", documentation, labels=["group"])
        for group, progress in shown:
            if (value := value_of(progress)) is not None:
                gauge.add_metric([group], value)
        yield gauge
    counters: tuple[tuple[str, str, Callable[[NotedProgress], float]], ...] = (
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
        counter = CounterMetricFamily(
            f"tidegauge_group_{name}", documentation, labels=["group"]
        )
        for group, progress in shown:
            counter.add_metric([group], count_of(progress))
        yield counter
    by_writer = CounterMetricFamily(
        "tidegauge_group_late_writer_rows",
        "Late rows by writer, of those that wrote most of them.",
        labels=["group", "writer"],
    )
    for group, progress in shown:
        for writer, rows in progress.late_writers.items():
            by_writer.add_metric([group, writer], rows)
    yield by_writer


def _seconds(span_ms: int | None) -> float | None:
    return None if span_ms is None else span_ms / 1_000
