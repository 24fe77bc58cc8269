"""A storage in memory: applies what the core hands out, as the service does to its tables."""

from dataclasses import dataclass, field

from tidegauge.aggregation.changes import (
    Changes,
    StoredAggregation,
    StoredPage,
    StoredReport,
    StoredWriter,
)
from tidegauge.marks import Mark


@dataclass
class Memory:
    """The rows of one stream."""

    pages: dict[int, StoredPage] = field(default_factory=dict)
    writers: dict[str, StoredWriter] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    reporters: int = 0
    forgotten_incarnation: int = 0

    def apply(self, changes: Changes) -> None:
        """Write one transaction."""
        if changes.page is not None:
            assert changes.page.number not in self.pages
            self.pages[changes.page.number] = changes.page
        for number in changes.pages_given_up:
            del self.pages[number]
        for name in changes.forgotten:
            self.writers.pop(name, None)
        for writer in changes.writers:
            self.writers[writer.writer] = writer
        for name, since in changes.holds.items():
            if name in self.writers:
                self.writers[name] = self.writers[name]._replace(hold_since_ms=since)
        self.marks += changes.marks
        if changes.counters is not None:
            self.reporters, self.forgotten_incarnation = changes.counters

    def stored(self) -> StoredAggregation:
        """Read everything back."""
        return StoredAggregation(
            newest=self.marks[-1] if self.marks else None,
            reporters=self.reporters,
            forgotten_incarnation=self.forgotten_incarnation,
            writers=list(self.writers.values()),
            pages=[self.pages[number] for number in sorted(self.pages)],
        )

    @property
    def reports(self) -> list[StoredReport]:
        """All stored reports, copies too."""
        return [report for page in self.pages.values() for report in page.reports]
