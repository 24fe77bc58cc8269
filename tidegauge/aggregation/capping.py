"""The cap on kept reports: beyond it inner ones are dropped, which loosens cuts, soundly."""

from collections.abc import Collection

from tidegauge.aggregation.running_cut import RunningCut
from tidegauge.aggregation.writers import Writer

KEPT_PER_WRITER = 1_024
KEPT_PER_STREAM = 1_000_000
_KEPT_AT_LEAST = 4
"""Of each writer, however many there are."""


class Capping:
    """Thins out the kept reports of writers that have too many.

    Parameters
    ----------
    cut
        Where they are kept.
    """

    def __init__(self, cut: RunningCut) -> None:
        self._cut = cut
        self._thinned_to = 0
        """How many kept reports the last thinning of all writers left over."""

    def most_of(self, writers: int) -> int:
        """Return how many reports each of so many writers may keep."""
        return min(KEPT_PER_WRITER, max(_KEPT_AT_LEAST, KEPT_PER_STREAM // max(writers, 1)))

    def limit(self, writer: Writer, writers: int) -> None:
        """Thin out a writer that kept one more report, if it has too many for so many writers."""
        kept = len(writer.kept)
        if kept > _KEPT_AT_LEAST and kept > self.most_of(writers):
            self._cut.thin_out(writer)

    def limit_all(self, writers: Collection[Writer]) -> None:
        """Thin out all writers, if they have too many together."""
        kept = len(self._cut)
        if kept > KEPT_PER_STREAM and kept > self._thinned_to + len(writers):
            for writer in writers:
                self._cut.thin_out(writer)
            self._thinned_to = len(self._cut)
