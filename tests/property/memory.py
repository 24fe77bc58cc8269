"""A storage in memory: applies what the core hands out, as the service does to its tables."""

from dataclasses import dataclass, field

from tidegauge.changes import Changes, StoredClock, StoredReport, StoredWriter
from tidegauge.marks import Mark


@dataclass
class Memory:
    """The rows of one stream."""

    reports: dict[int, StoredReport] = field(default_factory=dict)
    writers: dict[str, StoredWriter] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    reporters: int = 0
    forgotten_incarnation: int = 0

    def apply(self, changes: Changes) -> None:
        """Write one transaction."""
        for report in changes.reports:
            assert report.serial not in self.reports
            self.reports[report.serial] = report
        for merged in changes.merged:
            assert merged.serial in self.reports
            self.reports[merged.serial] = merged
        for serial in changes.dropped:
            del self.reports[serial]
        for writer in changes.writers:
            self.writers[writer.writer] = writer
        for name, since in changes.holds.items():
            if name in self.writers:
                self.writers[name] = self.writers[name]._replace(hold_since_ms=since)
        self._forget(set(changes.forgotten))
        self.marks += changes.marks
        if changes.counters is not None:
            self.reporters, self.forgotten_incarnation = changes.counters

    def stored(self) -> StoredClock:
        """Read everything back."""
        return StoredClock(
            newest=self.marks[-1] if self.marks else None,
            reporters=self.reporters,
            forgotten_incarnation=self.forgotten_incarnation,
            writers=list(self.writers.values()),
            reports=[self.reports[serial] for serial in sorted(self.reports)],
        )

    def _forget(self, names: set[str]) -> None:
        self.writers = {name: row for name, row in self.writers.items() if name not in names}
        self.reports = {
            serial: row for serial, row in self.reports.items() if row.writer not in names
        }
