"""A storage in memory: appends what the core hands out, as the service does."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from tidegauge.aggregation.changes import Changes, Entry, StoredAggregation, StoredReport
from tidegauge.marks import Mark

_decode = msgspec.msgpack.Decoder(Entry).decode


@dataclass
class Memory:
    """The changelog of one stream, and its marks."""

    log: list[bytes] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    restated: int = 0
    """How many entries were there when the present compaction began."""

    def apply(self, changes: Changes) -> None:
        """Write one transaction."""
        if changes.begins_compaction:
            self.restated = len(self.log)
        if changes.entry:
            self.log.append(msgspec.msgpack.encode(changes.entry))
        if changes.ends_compaction:
            del self.log[: self.restated]
        self.marks += changes.marks

    def stored(self) -> StoredAggregation:
        """Read everything back."""
        newest = self.marks[-1] if self.marks else None
        return StoredAggregation(newest=newest, entries=self.entries)

    @property
    def entries(self) -> Iterator[Entry]:
        """All that is in the log."""
        return map(_decode, self.log)

    @property
    def reports(self) -> list[StoredReport]:
        """All stored reports, also needless ones."""
        return [report for entry in self.entries for report in entry.reports]
