"""A stream that a test writes to, and a query that it follows batch by batch."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import httpx
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from spark_source import read_stream
from spark_source.compatibility import read_offset
from tests.service.api import Api
from tidegauge.client.blocks import Closing
from tidegauge.event_time import END_OF_TIME

DAY = 86_400_000
"""Spark has no times at or below 0, so the cases are moved by a day."""

_PATIENCE_S = 300
_SETTINGS: dict[str, object] = {
    "log": "embedded",
    "mark_resolution_ms": 0,
    "max_future_skew_ms": None,  # the times of tests look like seconds
}


class Feed(Closing):
    """Writes to one stream, without delays and thinning of marks; times are a day later."""

    def __init__(
        self, url: str, stream: str, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.url = url
        self.stream = stream
        self._api = Api(url, stream, transport=transport)

    def close(self) -> None:
        self._api.close()

    @property
    def options(self) -> dict[str, str]:
        return {"url": self.url, "stream": self.stream}

    def create(self, segments: int = 1, **settings: object) -> None:
        self._api.create(segments=segments, **_SETTINGS | settings)

    def delete(self) -> None:
        self._api.client.delete(self._api.path).raise_for_status()

    def write(self, *times: int | None, key: str = "k", value: str = "v") -> None:
        """Write an event for each time."""
        self._api.write(*((key, None if at is None else DAY + at, value) for at in times))

    def note(
        self, time_ms: int, writer: str = "w", position: Mapping[int, int] | None = None
    ) -> None:
        """Note a time at a position: with the current tails unless given."""
        self._api.says(writer, "note-time", time=DAY + time_ms, position=position)

    def seal(self, position: Mapping[int, int] | None = None) -> None:
        self._api.post("seal", **({} if position is None else {"position": position}))

    def load(self, spark: SparkSession, **options: Any) -> DataFrame:
        return read_stream(spark, **self.options | options)


class Followed(Closing):
    """A running query; its rows, and the bounds that it reached.

    A query that drains reads what is there, and ends.
    """

    def __init__(self, df: DataFrame, checkpoint: str, *, drains: bool = False) -> None:
        self.batches: dict[int, list[tuple[Any, ...]]] = {}
        writer = df.writeStream.option("checkpointLocation", checkpoint)
        writer = writer.foreachBatch(self._take)
        writer = writer.trigger(availableNow=True) if drains else writer
        self.query: StreamingQuery = writer.start()

    def close(self) -> None:
        self.query.stop()

    def until_read(self, bound: int | None) -> None:
        """Wait until a batch ended at a bound, and nothing is left to do."""
        wanted = None if bound is None else DAY + bound
        self.until(lambda: self._has_reached(wanted), f"an offset with bound {bound}")
        self.query.processAllAvailable()

    def until_end(self) -> None:
        """Wait until the stream was read to its end, and nothing is left to do."""
        self.until_read(END_OF_TIME - DAY)

    def until(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not done():
            error = self.query.exception()
            if error is not None:
                raise error
            assert time.monotonic() < deadline, f"waited for {what}: {self.query.lastProgress}"
            time.sleep(0.05)

    def fail(self) -> None:
        """Wait until the query fails, and raise what it failed with."""
        self.until(lambda: False, "the failure")

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """What came out, batch after batch."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    @property
    def bounds(self) -> list[int | None]:
        """The bound of each batch's end offset, less a day, without repetitions."""
        bounds: list[int | None] = []
        for progress in self.query.recentProgress:
            bound = _bound_of(progress)
            moved = None if bound is None else bound - DAY
            if not bounds or bounds[-1] != moved:
                bounds.append(moved)
        return bounds

    @property
    def watermarks(self) -> list[int]:
        """Spark's own watermark, batch by batch, less a day, without repetitions."""
        watermarks: list[int] = []
        for progress in self.query.recentProgress:
            text = progress["eventTime"].get("watermark")
            if text is not None:
                moved = max(0, round(datetime.fromisoformat(text).timestamp() * 1_000) - DAY)
                watermarks += [moved] if moved not in watermarks[-1:] else []
        return watermarks

    @property
    def dropped(self) -> int:
        return sum(
            operator["numRowsDroppedByWatermark"]
            for progress in self.query.recentProgress
            for operator in progress["stateOperators"]
        )

    @property
    def held(self) -> int:
        """How many rows are in the state of all operators."""
        progress = self.query.lastProgress
        assert progress is not None
        return sum(operator["numRowsTotal"] for operator in progress["stateOperators"])

    @property
    def events(self) -> int:
        """How many events of its stream are in batches that are done."""
        progress = self.query.lastProgress
        ends = [] if progress is None else _ends_of(progress)
        return sum(sum(end["position"].values()) for end in ends)

    @property
    def has_ended(self) -> bool:
        """Whether a batch that is done reached the end of its stream."""
        return self._has_reached(END_OF_TIME)

    def observed(self, name: str) -> list[Any]:
        """List what was observed by a name; of a batch without input nothing is."""
        metrics = [
            progress["observedMetrics"].get(name) for progress in self.query.recentProgress
        ]
        return [counts for counts in metrics if counts is not None]

    def _has_reached(self, bound: int | None) -> bool:
        progress = self.query.lastProgress
        return progress is not None and _bound_of(progress) == bound

    def _take(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = [tuple(row) for row in batch.collect()]


def _ends_of(progress: StreamingQueryProgress) -> list[dict[str, Any]]:
    """List where sources of ours ended; Kafka's says nothing of bounds."""
    ends = [read_offset(source["endOffset"]) for source in progress["sources"]]
    return [end for end in ends if "bound" in end]


def _bound_of(progress: StreamingQueryProgress) -> int | None:
    """Return the least bound, None before each source has one."""
    bounds = [end["bound"] for end in _ends_of(progress)]
    return None if None in bounds else min(bounds)
