"""What Prometheus is told of the present: looked up when it asks, and not before."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from controller.service import Service


class Gauges(Collector):
    """Where every stream stands, who writes to it, and what waits.

    Parameters
    ----------
    service
        What is looked at.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Describe nothing beforehand."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Look."""
        yield self._queue()
        yield self._readers()
        yield self._lag()
        yield self._writers()
        yield self._kept()

    def _queue(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "tidegauge_queue_changes",
            "Changes that wait for the next transaction.",
            value=self._service.sequencer.queue_length,
        )

    def _readers(self) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(
            "tidegauge_group_readers", "Readers of each group.", labels=["group"]
        )
        for group in self._service.groups:
            gauge.add_metric([str(group.name)], len(group.state.readers))
        return gauge

    def _lag(self) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(
            "tidegauge_watermark_lag_seconds",
            "Wall clock minus watermark, of streams whose times are wall clock.",
            labels=["stream"],
        )
        wall_ms = self._service.clocks.now().wall_ms
        for state in self._service.registry:
            watermark = state.watermark
            timed = state.config.max_future_skew_ms is not None
            if timed and watermark is not None and not state.final:
                lag_ms = wall_ms - watermark
                gauge.add_metric([str(state.identity.name)], lag_ms / 1_000)
        return gauge

    def _writers(self) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(
            "tidegauge_writers", "Writers by state.", labels=["stream", "state"]
        )
        now = self._service.clocks.now()
        for state in self._service.registry:
            for name, count in state.clock.inspect(now).count_states().items():
                gauge.add_metric([str(state.identity.name), name], count)
        return gauge

    def _kept(self) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(
            "tidegauge_kept_reports", "Reports above the watermark.", labels=["stream"]
        )
        for state in self._service.registry:
            gauge.add_metric([str(state.identity.name)], state.clock.kept_reports)
        return gauge
