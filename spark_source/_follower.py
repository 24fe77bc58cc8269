"""Following a stream in the background, so that Spark's many questions cost no request."""

import logging
import threading
import time
from collections import deque
from typing import Any

from reader_client import StreamClient
from spark_source._planner import Offset, View
from tidegauge.event_time import END_OF_TIME
from tidegauge.lattice import count_between
from tidegauge.marks import Mark
from tidegauge.wire.streams import Tail

_log = logging.getLogger(__name__)
_WAIT_MS = 20_000
_MARKS_KEPT = 4_000
_ENTRIES_KEPT = 500_000
"""Of the cuts of all marks: some tens of MB."""
_SETTLED_S = 1.0
_STUCK_S = 30.0
_EXPLAIN_EVERY_S = 5.0


class Follower:
    """Knows the newest tail of a stream, and its marks beyond where the query stands.

    It closes the client that it was given.
    """

    def __init__(self, client: StreamClient, start: Offset) -> None:
        self._client = client
        self._lock = threading.Condition()
        self._failure: Exception | None = None
        self._stopped = False
        self._marks: deque[Mark] = deque()
        self._fetched = start.revision
        self._time_to_reach: int | None = None
        self._explanation = ""
        self._explained_at = 0.0
        self._mark_at = time.monotonic()
        self._rows_at: float | None = None
        self._tail = client.tail()
        self._topology = client.topology()  # after the tail, whose segments it has to know
        self._frozen: Tail | None = None
        self._fetch_marks()
        self._thread = threading.Thread(
            target=self._follow, name="tidegauge-follower", daemon=True
        )
        self._thread.start()

    def view(self, start: Offset, time_to_reach: int | None) -> View:
        """Show the stream from where the query stands, or raise what stopped the following.

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
                topology=self._topology,
                marks=list(self._marks),
                is_newest=self._fetched >= (self._frozen or self._tail).revision,
                tail=dict(self._tail.tail),
            )

    def frozen_view(self, start: Offset, time_to_reach: int | None) -> View:
        """Show the stream as it was when this was first asked, for a query that drains it."""
        self.view(start, time_to_reach)
        with self._lock:
            if self._frozen is None:
                self._frozen = self._tail
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
        return View(view.topology, marks, view.is_newest, dict(frozen.tail))

    @property
    def is_settled(self) -> bool:
        """Whether event time has stood still for a second of wall clock."""
        return time.monotonic() - self._mark_at >= _SETTLED_S

    def report(self, reached: Offset) -> dict[str, Any]:
        """Say where the stream stands and what a query has still to read, for Spark's progress.

        The lag is in event time; null before the first mark, and for who has not reached the end
        of time, which is endlessly far.
        """
        with self._lock:
            tail, topology = self._tail, self._topology
            explanation = self._explanation
        known = {n: offset for n, offset in tail.tail.items() if n in topology}
        return {
            "tail": {str(n): offset for n, offset in sorted(tail.tail.items())},
            "watermark": tail.watermark,
            "revision": tail.revision,
            "explanation": explanation,
            "lag_ms": _lag_ms(reached.bound, tail.watermark),
            "backlog_rows": count_between(topology, reached.position, known),
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
                if self._fetched >= self._tail.revision:
                    self._await_tail()
                with self._lock:
                    self._lock.wait_for(lambda: self._stopped or self._make_room())
                self._fetch_marks()
                self._watch()
        except Exception as error:  # noqa: BLE001 (raised by the query's next question)
            with self._lock:
                self._failure = None if self._stopped else error
                self._lock.notify_all()

    def _await_tail(self) -> None:
        known, topology = self._tail, self._topology
        # Of sealed segments there may be thousands, in the address of the call.
        after = {number: known.tail.get(number, 0) for number in topology.unsealed}
        tail = self._client.tail(after=after, revision=known.revision, wait_ms=_WAIT_MS)
        if tail.topology_revision != topology.revision:
            topology = self._client.topology()
        with self._lock:
            self._topology, self._tail = topology, tail
            if tail.tail != known.tail and self._rows_at is None:
                self._rows_at = time.monotonic()

    def _make_room(self) -> bool:
        """Leave out every second mark where the query waits for one that would not fit.

        Tells whether there is room for more.
        """
        most = max(2, min(_MARKS_KEPT, _ENTRIES_KEPT // len(self._topology.segments)))
        if len(self._marks) >= most and self._falls_short:
            self._marks = deque(list(self._marks)[::-2][::-1])
        return len(self._marks) < most

    @property
    def _falls_short(self) -> bool:
        """Whether the marks, of which there are some, end before what the query has to reach."""
        goal = self._time_to_reach
        return goal is not None and self._marks[-1].lower < goal

    def _fetch_marks(self) -> None:
        if self._fetched >= self._tail.revision:
            return
        marks, topology = self._client.marks(after=self._fetched, limit=1_000), self._topology
        if any(number not in topology for mark in marks for number in mark.cut):
            topology = self._client.topology()  # scaled since the tail was read
        with self._lock:
            self._topology = topology
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
        sentence = self._client.explain().explanation.sentence
        with self._lock:
            self._explanation = sentence
        if self._rows_at is not None and now - self._rows_at >= _STUCK_S:
            self._rows_at = now
            _log.warning("rows come and the watermark stands still: %s", sentence)


def _lag_ms(reached: int | None, watermark: int | None) -> int | None:
    if watermark is None or reached is None:
        return None
    lag = max(0, watermark - reached)
    return None if lag and watermark == END_OF_TIME else lag
