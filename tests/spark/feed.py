"""A stream that a test writes to, and a query that it follows batch by batch."""

import json
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Self

import httpx
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from spark_source import read_stream
from spark_source.compatibility import read_offset

DAY = 86_400_000
"""Spark has no times at or below 0, so the cases are moved by a day."""

_PATIENCE_S = 120


class Feed:
    """Writes to one stream, without delays and thinning of marks."""

    def __init__(self, url: str, stream: str) -> None:
        self.url = url
        self.stream = stream
        self._client = httpx.Client(base_url=url, timeout=40)
        self._path = f"/v1/streams/{stream}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def options(self) -> dict[str, str]:
        return {"url": self.url, "stream": self.stream}

    def create(self, segments: int = 1) -> None:
        settings = {"segments": segments, "mark_interval_ms": 0, "mark_resolution_ms": 0}
        logical = {"max_future_skew_ms": None}  # the times of tests look like seconds
        self._client.put(self._path, json=settings | logical).raise_for_status()

    def delete(self) -> None:
        self._client.delete(self._path).raise_for_status()

    def write(self, *times: int | None, key: str = "k", value: str = "v") -> None:
        """Write an event for each time, a day later."""
        lines = [
            json.dumps({"key": key, "value": value, "event_time": _a_day_later(one)})
            for one in times
        ]
        self._client.post(
            f"{self._path}/events",
            content="\n".join(lines),
            headers={"content-type": "application/x-ndjson"},
        ).raise_for_status()

    def note(
        self, time_ms: int, writer: str = "w", position: dict[str, int] | None = None
    ) -> None:
        """Note a time, a day later, at a position: with the current tails unless given."""
        body = {"time": DAY + time_ms, "position": position}
        path = f"{self._path}/writers/{writer}/note-time"
        self._client.post(path, json=body).raise_for_status()

    def seal(self) -> None:
        self._client.post(f"{self._path}/seal").raise_for_status()

    def groups(self) -> list[str]:
        """Name the reader groups that read this stream."""
        answer = self._client.get("/v1/reader-groups", params={"limit": 1_000})
        found = answer.raise_for_status().json()["groups"]
        return [one["group"] for one in found if self.stream in one["streams"]]

    def load(self, spark: SparkSession, **options: Any) -> DataFrame:
        return read_stream(spark, url=self.url, stream=self.stream, **options)


def _a_day_later(time_ms: int | None) -> int | None:
    return None if time_ms is None else DAY + time_ms


class Followed:
    """A running query; its rows, and the bounds that it reached."""

    def __init__(self, df: DataFrame, checkpoint: str) -> None:
        self.batches: dict[int, list[tuple[Any, ...]]] = {}
        self.query: StreamingQuery = (
            df.writeStream.outputMode("append")
            .option("checkpointLocation", checkpoint)
            .foreachBatch(self._take)
            .start()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.query.stop()

    def until_bound(self, time_ms: int) -> None:
        """Wait until a batch after the one that reached a bound is done."""
        self.until(lambda: self._spark_watermark() >= DAY + time_ms, f"bound {time_ms}")

    def until_read(self, bound: int | None) -> None:
        """Wait until a batch ended at a bound, and nothing is left to do."""
        wanted = {"bound": None if bound is None else DAY + bound}
        self.until(lambda: self._end.items() >= wanted.items(), f"an offset with bound {bound}")
        self.query.processAllAvailable()

    def until(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not done():
            error = self.query.exception()
            if error is not None:
                raise error
            assert time.monotonic() < deadline, f"waited for {what}: {self.query.lastProgress}"
            time.sleep(0.02)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """What came out, batch after batch."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    @property
    def bounds(self) -> list[int | None]:
        """The bound of each batch's end offset, less a day, without repetitions."""
        found: list[int | None] = []
        for progress in self.query.recentProgress:
            bound = _end_of(progress)["bound"]
            moved = None if bound is None else bound - DAY
            if not found or found[-1] != moved:
                found.append(moved)
        return found

    @property
    def watermarks(self) -> list[int]:
        """Spark's own watermark, batch by batch, less a day, without repetitions."""
        found: list[int] = []
        for progress in self.query.recentProgress:
            text = progress["eventTime"].get("watermark")
            if text is not None and (moved := max(0, _to_ms(text) - DAY)) not in found[-1:]:
                found.append(moved)
        return found

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
    def _end(self) -> dict[str, Any]:
        """Where the newest batch ended; empty before there was one."""
        progress = self.query.lastProgress
        return {} if progress is None else _end_of(progress)

    def _spark_watermark(self) -> int:
        progress = self.query.lastProgress
        text = None if progress is None else progress["eventTime"].get("watermark")
        return 0 if text is None else _to_ms(text)

    def _take(self, batch: DataFrame, number: int) -> None:
        self.batches[number] = [tuple(row) for row in batch.collect()]


def _end_of(progress: StreamingQueryProgress) -> dict[str, Any]:
    """Find where the first source of ours ended; Kafka's says nothing of bounds."""
    ends = [read_offset(source["endOffset"]) for source in progress["sources"]]
    return next(end for end in ends if "bound" in end)


def _to_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)
