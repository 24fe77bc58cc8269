"""The answer to a scrape."""

import asyncio
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller.metrics import gauges

if TYPE_CHECKING:
    from controller.service import Service


class _Families(Collector):
    """What was laid out already, what may still be, and what the process says of itself."""

    def __init__(self, *families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "tidegauge_build", "What runs.", value={"version": version("tidegauge")}
        )
        yield from chain.from_iterable(self._families)
        yield from ProcessCollector(registry=CollectorRegistry()).collect()


async def expose(service: "Service") -> bytes:
    """Write everything that Prometheus may know, in its text format.

    Numbers are taken on the event loop, a little at a time; the text, which takes longer, is
    made in a thread.
    """
    present = await gauges.look(service)
    families = [*service.metrics.families(), *gauges.total_families(service, present)]
    shown = _Families(families, gauges.stream_families(present))
    return await asyncio.to_thread(generate_latest, shown)
