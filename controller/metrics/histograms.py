"""Histograms that cost a fraction of a microsecond to add to, and are laid out when asked for."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Bounds for durations."""


class Histogram:
    """Counts values by the least bound that they do not exceed.

    It belongs to one thread, and so does without the locks of Prometheus' own.
    """

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def show(self, family: HistogramMetricFamily, labels: Sequence[str] = ()) -> None:
        """Add to a family what was counted, with the values of its labels."""
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        running = accumulate(self._counts)
        family.add_metric(labels, list(zip(names, running, strict=True)), self._sum)


class RequestTimes:
    """How long requests took, by the template of their route and the class of their status."""

    def __init__(self) -> None:
        self._histograms: dict[tuple[str, int], Histogram] = {}

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        key = route, status // 100
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = self._histograms[key] = Histogram(SECONDS)
        histogram.observe(seconds)

    def show(self, name: str, documentation: str) -> HistogramMetricFamily:
        """Lay out what was counted."""
        family = HistogramMetricFamily(name, documentation, labels=["route", "status"])
        for (route, status), histogram in sorted(self._histograms.items()):
            histogram.show(family, [route, f"{status}xx"])
        return family
