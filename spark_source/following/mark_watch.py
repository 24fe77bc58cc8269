"""Watching the marks of a stream whose events are in Kafka."""

import threading
import time

import reader_client
from spark_source.source.unreached import UnreachedMark
from tidegauge.marks import Mark
from tidegauge.topology import Position

_WAIT_MS = 20_000
_PAGE = 1_000
_EXPLAIN_EVERY_S = 5.0
SETTLED_S = 1.0


class MarkWatch:
    """Knows when there are new marks, and the newest that a position covers.

    Spark asks every few milliseconds; only a new position or a new mark costs a request. It
    closes the client that it was given.
    """

    def __init__(self, client: "reader_client.StreamClient") -> None:
        self._client = client
        info = client.describe()
        self._partitions = info.topology.to_topology().segments.keys()
        self.revision, self.watermark = info.revision, info.watermark
        self._asked: tuple[Position, int] | None = None
        self._passed: Mark | None = None
        self._failure: Exception | None = None
        self._stopped = False
        self._mark_at = time.monotonic()
        threading.Thread(target=self._watch, name="tidegauge-marks", daemon=True).start()

    def passed(self, position: Position | None) -> Mark | None:
        """Find the newest mark whose cut a position covers, or raise what stopped the watching.

        Partitions that the stream does not know have no part in any cut.
        """
        if self._failure is not None:
            raise self._failure
        if position is None:
            return None
        asked = position, self.revision
        if asked != self._asked:
            found = self._client.marks_at_position(self._known(position)).passed
            self._passed = None if found is None else found.to_mark()
            self._asked = asked
        return self._passed

    @property
    def is_settled(self) -> bool:
        """Whether event time has stood still for a second of wall clock."""
        return time.monotonic() - self._mark_at >= SETTLED_S

    def stop(self) -> None:
        """Stop watching."""
        self._stopped = True
        self._client.close()

    def _known(self, position: Position) -> Position:
        if position.keys() - self._partitions:
            self._partitions = self._client.topology().segments.keys()
        return {
            number: offset for number, offset in position.items() if number in self._partitions
        }

    def _watch(self) -> None:
        try:
            while not self._stopped:
                news = self._client.marks(after=self.revision, limit=_PAGE, wait_ms=_WAIT_MS)
                if news:
                    self.revision, self.watermark = news[-1].revision, news[-1].lower
                    self._mark_at = time.monotonic()
        except Exception as error:  # noqa: BLE001 (raised by the query's next question)
            if not self._stopped:
                self._failure = error


class TopicWatch(MarkWatch):
    """Knows which partition of a topic keeps a query from its next mark, besides.

    Attributes
    ----------
    explanation
        The sentence of `UnreachedMark`; empty if nothing is wrong.
    """

    def __init__(self, client: "reader_client.StreamClient") -> None:
        super().__init__(client)
        self.explanation = ""
        self._unreached = UnreachedMark()
        self._explained_at = 0.0

    def passed(self, position: Position | None) -> Mark | None:
        """Find the newest mark that a position covers, and explain why it is not the next one."""
        found = super().passed(position)
        now = time.monotonic()
        if position is not None and now - self._explained_at >= _EXPLAIN_EVERY_S:
            self._explained_at = now
            revision = 0 if found is None else found.revision
            ahead = self.revision > revision and self._client.marks(after=revision, limit=1)
            self.explanation = self._unreached.explain(ahead[0] if ahead else None, position)
        return found
