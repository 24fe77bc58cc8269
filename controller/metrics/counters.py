"""What is counted for Prometheus; one set a service, so that tests may run several."""

from bisect import bisect_left
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

from tidegauge.aggregation.outcomes import PassOutcome

ACCEPTED = "accepted"
_BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Bounds for durations."""
_SHORT = (0.0001, 0.0002, *_SECONDS)


def counted(
    name: str,
    documentation: str,
    labels: Sequence[str],
    counts: Iterable[tuple[Sequence[str], float]],
) -> CounterMetricFamily:
    """Return counts as a family of metrics, each with the values of its labels."""
    family = CounterMetricFamily(f"tidegauge_{name}", documentation, labels=labels)
    for of, count in counts:
        family.add_metric(of, count)
    return family


class Histogram:
    """Counts values by the least bound that they do not exceed.

    It belongs to one thread, and so does without the locks of Prometheus' own: to add to it costs
    a fraction of a microsecond.
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
        self._histograms: dict[tuple[str, int], Histogram] = defaultdict(
            lambda: Histogram(_SECONDS)
        )

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._histograms[route, status // 100].observe(seconds)

    def show(self, name: str, documentation: str) -> HistogramMetricFamily:
        """Return what was counted as a family of metrics."""
        family = HistogramMetricFamily(name, documentation, labels=["route", "status"])
        for (route, status), histogram in sorted(self._histograms.items()):
            histogram.show(family, [route, f"{status}xx"])
        return family


class Metrics:
    """The counters of one service; all belong to the event loop's thread."""

    def __init__(self) -> None:
        self.report_tally: Tally[str] = Tally({ACCEPTED: 0})
        """Reports by outcome: ``accepted`` or the code of the refusal."""
        self.request_times = RequestTimes()
        """Of requests that do not wait for news."""
        self.long_poll_times = RequestTimes()
        self.tally: Tally[str] = Tally()
        """Of what has no labels: see `families`."""
        self._batch_changes = Histogram(_BATCHES)
        self._commit_seconds = Histogram(_SHORT)
        self._pass_seconds = Histogram(_SHORT)

    def count_batch(self, changes: int, seconds: float) -> None:
        """Count a batch and the time of its transaction."""
        self._batch_changes.observe(changes)
        self._commit_seconds.observe(seconds)

    def count_pass(self, outcome: PassOutcome, seconds: float) -> None:
        """Count a pass and what came of it."""
        self._pass_seconds.observe(seconds)
        self.tally["marks"] += len(outcome.marks)
        self.tally["expirations"] += len(outcome.expired)

    def families(self) -> Iterator[Metric]:
        """Return all that was counted as families of metrics."""
        documentation = "Reports: accepted, or the code of the refusal."
        tally = (([outcome], count) for outcome, count in sorted(self.report_tally.items()))
        yield counted("reports", documentation, ["outcome"], tally)
        for name, documentation in (
            ("marks", "Marks made."),
            ("expirations", "Writers that expired since they were silent."),
            ("commit_failures", "Transactions that failed; nothing of them is stored."),
            ("defects", "Requests that were answered with 500."),
        ):
            value = self.tally[name]
            yield CounterMetricFamily(f"tidegauge_{name}", documentation, value=value)
        for name, documentation, histogram in (
            ("batch_changes", "Changes that shared one transaction.", self._batch_changes),
            ("commit_duration_seconds", "How long a transaction took.", self._commit_seconds),
            ("pass_duration_seconds", "How long a pass took.", self._pass_seconds),
        ):
            family = HistogramMetricFamily(f"tidegauge_{name}", documentation)
            histogram.show(family)
            yield family
        yield self.request_times.show(
            "tidegauge_http_request_duration_seconds",
            "From a request to its answer, of calls that do not wait for news.",
        )
        yield self.long_poll_times.show(
            "tidegauge_http_long_poll_duration_seconds",
            "From a request to its answer, of calls with wait_ms; waiting included.",
        )
