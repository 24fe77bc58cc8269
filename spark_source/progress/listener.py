"""A listener of Spark that reports to the service how far queries with a reader group have come."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from reader_client import AsyncReaderGroup
from spark_source.progress.batch import (
    BatchProgress,
    Lateness,
    Query,
    StreamProgress,
    read_progress,
)
from tidegauge.client.addresses import check_urls
from tidegauge.client.blocks import Closing
from tidegauge.client.sync import LoopThread
from tidegauge.errors import TidegaugeError
from tidegauge.wire.groups import MOST_LATE_WRITERS

_ONCE = timedelta(0)
"""What could not be reported is not repeated: the next batch reports what is true by then."""
_ASK_S = 2.0
"""Between two questions to a query that is followed; Spark remembers its latest 100 batches."""
_MOST_WRITERS = 1_000
"""Late rows are counted for so many writers of a query, those with the fewest are forgotten first."""
_log = logging.getLogger(__name__)
_Messages = dict[str, dict[str, Any]]  # by reader group


class _Run:
    """One run of a query: its late rows since it started, and what was reported last."""

    def __init__(self) -> None:
        self._total = Lateness()
        self.messages: _Messages = {}

    def take_in(self, batch: BatchProgress) -> None:
        total = self._total + batch.lateness
        if len(total.late_writers) > _MOST_WRITERS:
            worst = Counter(dict(total.late_writers.most_common(_MOST_WRITERS)))
            total = replace(total, late_writers=worst)
        self._total = total
        self.messages = {
            one.reader_group: self._message(one, batch.state_bytes)
            for one in batch.streams
            if one.reader_group is not None
        }

    def _message(self, progress: StreamProgress, state_bytes: int) -> dict[str, Any]:
        total = self._total
        return {
            "bound": progress.bound,
            "lag_ms": progress.lag_ms,
            "backlog": progress.backlog,
            "late": total.late,
            "late_by_ms": total.late_by_ms,
            "late_writers": dict(total.late_writers.most_common(MOST_LATE_WRITERS)),
            "late_output": total.late_output,
            "partially_late": total.partially_late,
            "state_bytes": state_bytes,
        }


def _ask(query: Query) -> tuple[bool, bool, Sequence[StreamingQueryProgress]]:
    """Return whether a query is active and whether it has nothing to do; last, what it has done."""
    return query.isActive, not query.status["isDataAvailable"], query.recentProgress


class ProgressListener(StreamingQueryListener, Closing):
    """Reports each batch of the queries with a ``readerGroup`` to the service.

    The service shows it for 5 minutes: bound, lag in event time, backlog, size of the state, late
    rows and who wrote them, in ``/metrics``, ``tidegauge lag`` and ``ReaderGroup.describe``. Late
    rows are those of the whole query, also where it reads several streams, and are counted since
    it started.

    No query waits for the service, or fails with it. What cannot be reported is counted in
    ``failures``, logged once until it can be again, and dropped: of each group the newest waits.

    Parameters
    ----------
    url
        Of the service, or of each of its controllers, with commas between.
    token
        Bearer token, if the service wants one; it needs the role ``read``.

    Examples
    --------
    >>> listener = ProgressListener("http://127.0.0.1:8470")
    >>> spark.streams.addListener(listener)  # doctest: +SKIP

    Over Spark Connect:

    >>> listener.follow(query)  # doctest: +SKIP
    """

    def __init__(self, url: str, token: str | None = None) -> None:
        self.failures = 0
        self._url = check_urls(url)
        self._token = token
        self._runs: dict[UUID, _Run] = {}
        self._thread = LoopThread("tidegauge-progress")
        self._waiting: _Messages = {}
        self._groups: dict[str, AsyncReaderGroup] = {}
        self._reporting: dict[str, asyncio.Task[Any] | None] = {}
        self._failing: set[str] = set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's)
        """Wait for its first batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 (Spark's)
        """Report a batch."""
        run = self._runs.setdefault(event.progress.runId, _Run())
        run.take_in(read_progress(event.progress))
        self._submit(run)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 (Spark's)
        """Report again for an idle query, so that it does not seem silent."""
        if event.runId in self._runs:
            self._submit(self._runs[event.runId])

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 (Spark's)
        """Stop reporting."""
        self._runs.pop(event.runId, None)

    def follow(self, query: Query) -> None:
        """Ask a query for its batches until it ends, instead of being added to Spark.

        For Spark Connect, which in 4.3 drops all listeners as soon as a data source in Python runs
        (SPARK-59135).

        Parameters
        ----------
        query
            That was just started: late rows of batches that Spark has forgotten are not counted.
        """
        self._thread.submit(self._follow(query))

    def close(self) -> None:
        """Report what is waiting, and close the connections; first remove the listener from Spark."""
        self._thread.end(self._close)

    async def _follow(self, query: Query) -> None:
        run, last, active = _Run(), -1, True
        try:
            while active:
                active, idle, recent = await asyncio.to_thread(_ask, query)
                fresh = [one for one in recent if one.batchId > last]
                for progress in fresh:
                    run.take_in(read_progress(progress))
                    last = progress.batchId
                if fresh or idle:
                    self._submit(run)
                await asyncio.sleep(_ASK_S)
        except Exception:  # noqa: BLE001 (there is nobody to raise it to)
            self.failures += 1
            _log.exception("stopped reporting the progress of %s", query.name or "a query")

    def _submit(self, run: _Run) -> None:
        for group, message in run.messages.items():
            self._waiting[group] = message
            self._thread.submit(self._report_newest(group))

    async def _report_newest(self, group: str) -> None:
        """Report what is waiting, unless that is under way: then continue with the newest."""
        if group in self._reporting:
            return
        self._reporting[group] = asyncio.current_task()
        try:
            while (message := self._waiting.pop(group, None)) is not None:
                await self._report(group, message)
        finally:
            del self._reporting[group]

    async def _report(self, group: str, message: dict[str, Any]) -> None:
        if group not in self._groups:
            self._groups[group] = AsyncReaderGroup(
                self._url, group, token=self._token, retry_for=_ONCE
            )
        try:
            await self._groups[group].report_progress(**message)
        except Exception as error:  # noqa: BLE001 (no query fails since a report fails)
            self.failures += 1
            if group not in self._failing:
                self._failing.add(group)
                defect = None if isinstance(error, TidegaugeError) else error
                _log.warning(
                    "cannot report the progress of %s: %s", group, error, exc_info=defect
                )
        else:
            if group in self._failing:
                self._failing.discard(group)
                _log.warning("reports the progress of %s again", group)

    async def _close(self) -> None:
        await asyncio.gather(*filter(None, self._reporting.values()))
        for client in self._groups.values():
            await client.aclose()
