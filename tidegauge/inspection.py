"""Inspection: what operators ask about the writers of a stream, answered from memory."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tidegauge.explain import Explanation, WriterStatus, explain
from tidegauge.marks import Mark
from tidegauge.progress import Progress
from tidegauge.roster import Roster
from tidegauge.settings import StreamSettings
from tidegauge.writers import Now, Writer, WriterState

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Inspection:
    """A stream as of one moment.

    Attributes
    ----------
    now
        The moment, on both clocks.
    newest
        Its newest mark.
    settings
        How its reports become marks.
    roster, progress
        Its writers, and where they stand.
    """

    now: Now
    newest: Mark | None
    settings: StreamSettings
    roster: Roster
    progress: Progress

    def status(self, writer: str) -> WriterStatus:
        """Describe a writer; raises `UnknownWriterError`."""
        return self._status(self.roster.get(writer))

    def statuses(self, *, after: str = "") -> Iterator[WriterStatus]:
        """Describe all writers whose names come after one, in order of name."""
        return (self.status(name) for name in self.roster.names_after(after))

    def count_states(self) -> Counter[WriterState]:
        """Count the writers in each state."""
        return Counter(self._state(one) for one in self.roster)

    def explain(self) -> Explanation:
        """Say why the watermark is where it is; the cost does not grow with the writers."""
        progress = self.progress
        return explain(
            self.newest,
            writers=len(self.roster),
            reporters=self.roster.reporters,
            min_writers=self.settings.min_writers,
            holders=[self._status(one) for one in islice(progress.holders, _SHOWN)],
            holder_count=len(progress.holders),
            waiting=[one.name for one in islice(progress.ahead, _SHOWN)],
            waiting_count=len(progress.ahead),
            furthest=progress.furthest,
        )

    def _state(self, writer: Writer) -> WriterState:
        return writer.state(somebody_waits=bool(self.progress.ahead))

    def _status(self, writer: Writer) -> WriterStatus:
        now, furthest = self.now, self.progress.furthest
        holding = expires = behind = None
        if writer.hold_since_ms is not None:
            holding = now.listening_ms - writer.hold_since_ms
            if self.settings.aggregation_timeout_ms is not None:
                expires = max(0, self.settings.aggregation_timeout_ms - holding)
        if writer.time is not None and furthest is not None:
            behind = furthest - writer.time
        return WriterStatus(
            writer=writer.name,
            state=self._state(writer),
            incarnation=writer.incarnation,
            time=writer.time,
            position=writer.whole_position,
            behind_ms=behind,
            silent_ms=None if writer.heard_ms is None else now.wall_ms - writer.heard_ms,
            holding_ms=holding,
            expires_in_ms=expires,
        )
