"""Following a stream in the background, so that Spark's many questions cost no request."""

import logging
import threading
import time
from collections import deque
from typing import Any

import reader_client
from spark_source.errors import LogReplacedError
from spark_source.source.planner import Offset, View
from spark_source.source.unreached import UnreachedMark
from tidegauge.event_time import END_OF_TIME
from tidegauge.lattice import count_between
from tidegauge.log import Extent, Log
from tidegauge.marks import Mark

_log = logging.getLogger(__name__)
_WAIT_MS = 20_000
_MARKS_KEPT = 4_000
_ENTRIES_KEPT = 500_000
"""Of the cuts of all marks: some tens of MB."""
_SETTLED_S = 1.0
_STUCK_S = 30.0
_EXPLAIN_EVERY_S = 5.0


class Follower:
    """Knows how far a log goes, and the marks of its stream beyond where the query is.

    It closes the client that it was given, which is asked for the marks.
    """

    def __init__(self, log: Log, client: "reader_client.StreamClient", start: Offset) -> None:
        self._log = log
        self._client = client
        self._log_id = start.log_id
        self._lock = threading.Condition()
        self._failure: Exception | None = None
        self._stopped = False
        self._marks: deque[Mark] = deque()
        self._fetched = start.revision
        self._time_to_reach: int | None = None
        self._explanation = ""
        self._explained_at = 0.0
        self._unreached = UnreachedMark()
        self._mark_at = time.monotonic()
        self._rows_at: float | None = None
        self._extent = self._checked(log.extent())
        self._frozen: Extent | None = None
        self._fetch_marks()
        self._thread = threading.Thread(
            target=self._follow, name="tidegauge-follower", daemon=True
        )
        self._thread.start()

    def view(self, start: Offset, time_to_reach: int | None) -> View:
        """Show the stream from where the query is, or raise what stopped the following.

        A mark has to reach ``time_to_reach`` for a batch; None if any mark will do.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            while self._marks and self._marks[0].revision <= start.revision:
                self._marks.popleft()
            self._time_to_reach = time_to_reach
            self._lock.notify_all()
            return View(
                topology=self._extent.topology,
                marks=list(self._marks),
                is_newest=self._fetched >= (self._frozen or self._extent).revision,
                tail=dict(self._extent.ends),
            )

    def frozen_view(self, start: Offset, time_to_reach: int | None) -> View:
        """Show the stream as it was when this was first asked, for a query that drains it."""
        self.view(start, time_to_reach)
        with self._lock:
            if self._frozen is None:
                self._frozen = self._extent
            frozen = self._frozen
            self._lock.wait_for(
                lambda: (
                    self._failure is not None
                    or self._fetched >= frozen.revision
                    or (self._marks and not self._falls_short)
                )
            )
        view = self.view(start, time_to_reach)
        marks = [mark for mark in view.marks if mark.revision <= frozen.revision]
        return View(view.topology, marks, view.is_newest, dict(frozen.ends))

    @property
    def is_settled(self) -> bool:
        """Whether event time has stood still for a second of wall clock."""
        return time.monotonic() - self._mark_at >= _SETTLED_S

    def report(self, reached: Offset) -> dict[str, Any]:
        """Describe how far the stream is and what a query has still to read, for Spark's progress.

        The lag is in event time; null before the first mark, and for who has not reached the end
        of time, which is endlessly far.
        """
        with self._lock:
            extent, explanation = self._extent, self._explanation
        known = {n: offset for n, offset in extent.ends.items() if n in extent.topology}
        return {
            "tail": {str(n): offset for n, offset in sorted(extent.ends.items())},
            "watermark": extent.watermark,
            "revision": extent.revision,
            "explanation": explanation,
            "lag_ms": lag_ms(reached.bound, extent.watermark),
            "backlog_rows": count_between(extent.topology, reached.position, known),
        }

    def stop(self) -> None:
        """Stop following."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()
        self._client.close()

    def _follow(self) -> None:
        try:
            while not self._stopped:
                if self._fetched >= self._extent.revision:
                    self._await_growth()
                with self._lock:
                    self._lock.wait_for(lambda: self._stopped or self._make_room())
                self._fetch_marks()
                self._watch()
        except Exception as error:  # noqa: BLE001 (raised by the query's next question)
            with self._lock:
                self._failure = None if self._stopped else error
                self._lock.notify_all()

    def _await_growth(self) -> None:
        known = self._extent
        extent = self._checked(self._log.extent(known, wait_ms=_WAIT_MS))
        with self._lock:
            self._extent = extent
            if extent.ends != known.ends and self._rows_at is None:
                self._rows_at = time.monotonic()

    def _checked(self, extent: Extent) -> Extent:
        if extent.log_id != self._log_id:
            raise LogReplacedError(extent.log_id, self._log_id)
        return extent

    def _make_room(self) -> bool:
        """Leave out every second mark where the query waits for one that would not fit.

        Return whether there is room for more.
        """
        most = max(2, min(_MARKS_KEPT, _ENTRIES_KEPT // len(self._extent.topology.segments)))
        if len(self._marks) >= most and self._falls_short:
            self._marks = deque(list(self._marks)[::-2][::-1])
        return len(self._marks) < most

    @property
    def _falls_short(self) -> bool:
        """Whether the marks, of which there are some, end before what the query has to reach."""
        goal = self._time_to_reach
        return goal is not None and self._marks[-1].lower < goal

    def _fetch_marks(self) -> None:
        if self._fetched >= self._extent.revision:
            return
        marks, extent = self._client.marks(after=self._fetched, limit=1_000), self._extent
        if any(number not in extent.topology for mark in marks for number in mark.cut):
            extent = self._checked(self._log.extent())  # scaled since it was looked at
        with self._lock:
            self._extent = extent
            self._marks.extend(marks)
            if marks:
                self._fetched = marks[-1].revision
                self._mark_at = time.monotonic()
                self._rows_at = None
            self._lock.notify_all()

    def _watch(self) -> None:
        """Warn when rows come and time stands still; keep the explanation fresh."""
        now = time.monotonic()
        if now - self._explained_at < _EXPLAIN_EVERY_S:
            return
        self._explained_at = now
        unreached = self._explain_unreached()
        sentence = " ".join(
            filter(None, [self._client.explain().explanation.in_full, unreached])
        )
        with self._lock:
            self._explanation = sentence
        if self._rows_at is not None and now - self._rows_at >= _STUCK_S:
            self._rows_at = now
            _log.warning("rows come and the watermark stands still: %s", sentence)

    def _explain_unreached(self) -> str:
        with self._lock:
            oldest = self._marks[0] if self._marks else None
            extent = self._extent
        # The service's own log is where its marks are, and has no id.
        return "" if extent.log_id is None else self._unreached.explain(oldest, extent.ends)


def lag_ms(reached: int | None, watermark: int | None) -> int | None:
    """Return how far a bound is behind the watermark; None if that is not known."""
    if watermark is None or reached is None:
        return None
    lag = max(0, watermark - reached)
    return None if lag and watermark == END_OF_TIME else lag
