"""A chain of Delta tables whose queries die around commits ends where plain Python does."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from reader_client import StreamClient
from spark_source import append_to_table, follow, read_stream
from spark_source.errors import TableTakenError
from spark_source.sink.tables import Delta
from tests.lake.laws import check, read
from tests.server import ServerProcess
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import Note, complete_until, version_at
from writer_client import Writer

_HOUR = 3_600_000
_EVENTS, _DISORDER = 600, 2 * _HOUR
_BEGIN = 1_700_006_400_000
_NAME = "lake/rides"


@pytest.fixture(scope="module")
def times(shared_server: ServerProcess) -> list[int]:
    """The times of a sealed stream's events, two hours out of order at most."""
    random = Random(5)
    arrivals = (_BEGIN + number * 24 * _HOUR // _EVENTS for number in range(_EVENTS))
    events = sorted((time + random.randrange(_DISORDER), time) for time in arrivals)
    with StreamClient(shared_server.url, _NAME) as client:
        client.create()
        with Writer(shared_server.url, _NAME, "w") as writer:
            for number, (at, time) in enumerate(events):
                writer.write(b"", key=str(number), event_time=time)
                if number % 50 == 49:
                    writer.note_time(at - _DISORDER)
            writer.flush()
        client.seal()
    return [time for _, time in events]


class _DiesError(Exception):
    """Stands for the end of the driver's process."""


def _dying(patch: pytest.MonkeyPatch, *moments: tuple[int, str]) -> None:
    """Fail once at each moment: before or after the commit of a number."""
    append, left, made = Delta.append, set(moments), iter(range(1_000))

    def dies(self: Delta, frame: DataFrame, options: Mapping[str, str]) -> None:
        number = next(made)
        if (number, "before") in left:
            raise _DiesError
        append(self, frame, options)
        if (number, "after") in left:
            raise _DiesError

    patch.setattr(Delta, "append", dies)


def _to_the_end(start: Callable[[], Any], table: str, tries: int = 6) -> int:
    """Run a query again until its table is final; return how often it died."""
    for died in range(tries):
        query = start()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            query.stop()
        else:
            if complete_until(table) == END_OF_TIME:
                return died
    pytest.fail(f"{table} is not final after {tries} runs")


def _bronze(spark: SparkSession, url: str, folder: Path, **how: Any) -> Any:
    rides = read_stream(spark, url=url, stream=_NAME, maxRowsPerTrigger=100)
    return append_to_table(
        rides.select("key", "event_time", "watermark"),
        str(folder / "bronze"),
        format="delta",
        event_time="event_time",
        checkpoint=str(folder / "bronze-checkpoint"),
        note_every="0 ms",
        trigger="availableNow",
        **how,
    )


def _silver(spark: SparkSession, folder: Path) -> Any:
    bronze = str(folder / "bronze")
    source = spark.readStream.format("delta").options(startingVersion=0, maxFilesPerTrigger=2)
    followed = follow(
        source.load(bronze),
        event_time="event_time",
        table=bronze,
        checkpoint=str(folder / "silver-checkpoint"),
        operators="windows",
    )
    hourly = followed.groupBy(F.window("event_time", "1 hour")).count()
    return append_to_table(
        hourly.select(F.col("window.start").alias("hour"), "count"),
        str(folder / "silver"),
        format="delta",
        event_time="hour",
        output_delay="1 hour",
        checkpoint=str(folder / "silver-checkpoint"),
        note_every="0 ms",
        trigger="availableNow",
    )


def test_a_chain_that_dies_around_commits_keeps_the_laws_and_ends_where_python_does(
    lake_spark: SparkSession, shared_server: ServerProcess, times: list[int], tmp_path: Path
) -> None:
    bronze, silver = str(tmp_path / "bronze"), str(tmp_path / "silver")
    with pytest.MonkeyPatch.context() as patch:
        _dying(patch, (1, "before"), (3, "after"))
        died = _to_the_end(lambda: _bronze(lake_spark, shared_server.url, tmp_path), bronze)
    assert died == 2
    versions = read(bronze, "key", "event_time")
    check(versions)
    assert Counter(at for one in versions for _, at in one.rows) == Counter(times)
    lake_spark.sql(f"OPTIMIZE delta.`{bronze}`")
    with pytest.MonkeyPatch.context() as patch:
        _dying(patch, (1, "after"), (3, "before"))
        _to_the_end(lambda: _silver(lake_spark, tmp_path), silver)
    check(read(silver, "hour", "hour"))
    hours = Counter(time // _HOUR * _HOUR for time in times)
    table = lake_spark.read.format("delta").load(silver)
    rows = table.select(F.unix_millis("hour").alias("at"), "count").collect()
    counted = {row["at"]: row["count"] for row in rows}
    assert counted == hours
    middle = _BEGIN + 12 * _HOUR
    version = version_at(bronze, middle)
    assert version is not None
    below = [time for one in versions[: version + 1] for _, time in one.rows if time < middle]
    assert len(below) == sum(time < middle for time in times)


def test_a_note_that_says_an_hour_too_much_is_found(
    lake_spark: SparkSession, shared_server: ServerProcess, times: list[int], tmp_path: Path
) -> None:
    append = Delta.options

    def too_much(self: Delta, spark: SparkSession, note: Note) -> dict[str, str]:
        if note.until is not None:
            note = note.model_copy(update={"until": note.until + 4 * _HOUR})
        return append(self, spark, note.model_copy(update={"late": 0}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Delta, "options", too_much)
        _bronze(lake_spark, shared_server.url, tmp_path).awaitTermination()
    with pytest.raises(AssertionError, match="rows are behind a note"):
        check(read(str(tmp_path / "bronze"), "key", "event_time"))


def test_a_batch_that_is_repeated_without_its_transaction_is_found(
    lake_spark: SparkSession, shared_server: ServerProcess, times: list[int], tmp_path: Path
) -> None:
    make = Delta.options

    def without(self: Delta, spark: SparkSession, note: Note) -> dict[str, str]:
        return {"userMetadata": make(self, spark, note)["userMetadata"]}

    bronze = str(tmp_path / "bronze")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Delta, "options", without)
        _dying(patch, (2, "after"))
        _to_the_end(lambda: _bronze(lake_spark, shared_server.url, tmp_path), bronze)
    with pytest.raises(AssertionError, match="rows are in two versions"):
        check(read(bronze, "key", "event_time"))


def test_another_job_is_refused_until_it_takes_over(
    lake_spark: SparkSession, shared_server: ServerProcess, times: list[int], tmp_path: Path
) -> None:
    _bronze(lake_spark, shared_server.url, tmp_path, job="one").awaitTermination()
    (tmp_path / "bronze-checkpoint").rename(tmp_path / "old")
    with pytest.raises(StreamingQueryException, match=TableTakenError.__name__):
        _bronze(lake_spark, shared_server.url, tmp_path, job="two").awaitTermination()
