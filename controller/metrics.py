"""What is counted for Prometheus; one registry a service, so that tests may run several."""

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

ACCEPTED = "accepted"
_BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
_SECONDS = (0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """The counters of one service.

    Attributes
    ----------
    registry
        What ``/metrics`` shows.
    reports
        Reports by outcome: ``accepted`` or the code of the refusal.
    marks
        Marks made.
    batch_sizes
        Changes that shared one transaction.
    commit_seconds
        How long a transaction took; so long a report waits for its answer, or twice.
    pass_seconds
        How long a pass took.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reports = Counter(
            "tidegauge_reports", "Reports by outcome.", ["outcome"], registry=self.registry
        )
        self.marks = Counter("tidegauge_marks", "Marks made.", registry=self.registry)
        self.batch_sizes = Histogram(
            "tidegauge_batch_changes",
            "Changes that shared one transaction.",
            registry=self.registry,
            buckets=_BATCHES,
        )
        self.commit_seconds = Histogram(
            "tidegauge_commit_seconds",
            "How long a transaction took.",
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.pass_seconds = Histogram(
            "tidegauge_pass_seconds",
            "How long a pass took.",
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.report_tally: Tally[str] = Tally()
        """Counted on the hot path, added to ``reports`` when somebody looks."""

    def count_batch(self, changes: int, seconds: float) -> None:
        """Count a batch and the time of its transaction."""
        self.batch_sizes.observe(changes)
        self.commit_seconds.observe(seconds)

    def flush(self) -> None:
        """Add what the hot path counted."""
        tally, self.report_tally = self.report_tally, Tally()
        for outcome, count in tally.items():
            self.reports.labels(outcome).inc(count)

    def count_reports(self, outcomes: Iterable[str]) -> None:
        """Count reports by outcome."""
        self.report_tally.update(outcomes)
