"""Making the state of an aggregation from its changelog."""

from tidegauge.aggregation.changes import Entry, KeptTime
from tidegauge.aggregation.writers import Writer
from tidegauge.lattice import DownSet, raise_to


class Replay:
    """Takes in the entries of a changelog, in order.

    Parameters
    ----------
    watermark
        Of the newest mark, ms; None before the first.

    Attributes
    ----------
    writers
        By name, with the reports that they keep: those above the watermark.
    reach
        What the next mark covers at least, next to what writers and kept reports say.
    counters
        How many distinct writers ever reported, and the highest incarnation of a forgotten one.
    length
        Of the log, in items.
    """

    def __init__(self, watermark: int | None) -> None:
        self.writers: dict[str, tuple[Writer, list[KeptTime]]] = {}
        self.reach: DownSet = {}
        self.counters = 0, 0
        self.length = 0
        self._watermark = watermark

    def take_in(self, entry: Entry) -> None:
        """Take in an entry.

        One that became needless may still be there, and what it refers to not: reports of writers
        that nobody knows are from before these are restated.
        """
        self.length += entry.length
        raise_to(self.reach, entry.reach)
        for report in entry.reports:
            time, gained = report.time, report.gained
            found = self.writers.get(report.writer)
            if found is not None:
                found[0].know(report)
            if self._is_above(time, gained) and found is not None:
                found[1].append((time, gained))
        for name in entry.forgotten:
            self.writers.pop(name, None)
        for row in entry.writers:
            kept = [one for one in row.kept if self._is_above(*one)]
            self.writers[row.writer] = Writer.restore(row), kept
        for name, since_ms in entry.holds.items():
            if name in self.writers:
                self.writers[name][0].hold_since_ms = since_ms
        self.counters = entry.counters or self.counters

    def _is_above(self, time: int, gained: DownSet) -> bool:
        """Tell whether a report is above the watermark; what others gained was released."""
        if self._watermark is None or time > self._watermark:
            return True
        raise_to(self.reach, gained)
        return False
