"""A chain of tables whose queries die around commits ends where plain Python does."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from reader_client import StreamClient
from spark_source import append_to_table, follow, read_stream
from spark_source.sink.engines import Delta, Iceberg
from tests.lake.lakes import Lake
from tests.lake.laws import check, read
from tests.patience import wait_until
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


def _dying(patch: pytest.MonkeyPatch, lake: Lake, *moments: tuple[int, str]) -> None:
    """Fail once at each moment: before or after the commit of a number."""
    engine = _engine(lake)
    append, left, made = engine.append, set(moments), iter(range(1_000))

    def dies(self: Any, frame: DataFrame, options: Mapping[str, str]) -> None:
        number = next(made)
        if (number, "before") in left:
            raise _DiesError
        append(self, frame, options)
        if (number, "after") in left:
            raise _DiesError

    patch.setattr(engine, "append", dies)


def _engine(lake: Lake) -> type[Delta | Iceberg]:
    return Delta if lake.format == "delta" else Iceberg


def _to_the_end(start: Callable[[], Any], lake: Lake, name: str, tries: int = 6) -> int:
    """Run a query again until its table is final; return how often it died."""
    for died in range(tries):
        if _ends(start(), lake, name):
            return died
    pytest.fail(f"{name} is not final after {tries} runs")


def _ends(query: StreamingQuery, lake: Lake, name: str) -> bool:
    """Wait until the table is final, or the query dies; AvailableNow ends early on Spark 4.1."""
    try:
        wait_until(lambda: not query.isActive or _is_final(lake, name))
    finally:
        query.stop()
    return _is_final(lake, name)


def _is_final(lake: Lake, name: str) -> bool:
    return complete_until(lake.table(name), catalog=lake.catalog) == END_OF_TIME


def _bronze(spark: SparkSession, url: str, lake: Lake, folder: Path, **how: Any) -> Any:
    rides = read_stream(spark, url=url, stream=_NAME, maxRowsPerTrigger=100)
    return append_to_table(
        rides.select("key", "event_time", "watermark"),
        lake.table("bronze"),
        event_time="event_time",
        checkpoint=str(folder / "bronze-checkpoint"),
        note_every="0 ms",
        **lake.how,
        **how,
    )


_FEW_FILES = {
    "delta": {"startingVersion": 0, "maxFilesPerTrigger": 2},
    "iceberg": {"streaming-max-files-per-micro-batch": 2},
}


def _silver(spark: SparkSession, lake: Lake, folder: Path) -> Any:
    followed = follow(
        lake.stream(spark, "bronze", **_FEW_FILES[lake.format]),
        event_time="event_time",
        table=lake.table("bronze"),
        checkpoint=str(folder / "silver-checkpoint"),
        operators="windows",
        catalog=lake.catalog,
    )
    hourly = followed.groupBy(F.window("event_time", "1 hour")).count()
    return append_to_table(
        hourly.select(F.col("window.start").alias("hour"), "count"),
        lake.table("silver"),
        event_time="hour",
        output_delay="1 hour",
        checkpoint=str(folder / "silver-checkpoint"),
        note_every="0 ms",
        **lake.how,
    )


def test_a_chain_that_dies_around_commits_keeps_the_laws_and_ends_where_python_does(
    lake_spark: SparkSession,
    shared_server: ServerProcess,
    lake: Lake,
    times: list[int],
    tmp_path: Path,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _dying(patch, lake, (1, "before"), (3, "after"))
        died = _to_the_end(
            lambda: _bronze(lake_spark, shared_server.url, lake, tmp_path), lake, "bronze"
        )
    assert died == 2
    _compact(lake_spark, lake, "bronze")
    versions = read(lake, "bronze", "key", "event_time")
    check(versions)
    assert Counter(at for one in versions for _, at in one.rows) == Counter(times)
    with pytest.MonkeyPatch.context() as patch:
        _dying(patch, lake, (1, "after"), (3, "before"))
        _to_the_end(lambda: _silver(lake_spark, lake, tmp_path), lake, "silver")
    check(read(lake, "silver", "hour", "hour"))
    hours = Counter(time // _HOUR * _HOUR for time in times)
    table = lake.read(lake_spark, "silver")
    rows = table.select(F.unix_millis("hour").alias("at"), "count").collect()
    counted = {row["at"]: row["count"] for row in rows}
    assert counted == hours
    middle = _BEGIN + 12 * _HOUR
    version = version_at(lake.table("bronze"), middle, catalog=lake.catalog)
    assert version is not None
    covered = [row for one in versions if one.number <= version for row in one.rows]
    below = [time for _, time in covered if time < middle]
    assert len(below) == sum(time < middle for time in times)


def _compact(spark: SparkSession, lake: Lake, name: str) -> None:
    if lake.format == "delta":
        spark.sql(f"OPTIMIZE {lake.sql(name)}")
    else:
        options = "options => map('rewrite-all', 'true')"
        spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{lake.table(name)}', {options})"
        )


def test_a_note_that_says_an_hour_too_much_is_found(
    lake_spark: SparkSession,
    shared_server: ServerProcess,
    delta: Lake,
    times: list[int],
    tmp_path: Path,
) -> None:
    engine = _engine(delta)
    make = engine.options

    def too_much(self: Any, spark: SparkSession, note: Note) -> dict[str, str]:
        if note.until is not None:
            note = note.model_copy(update={"until": note.until + 4 * _HOUR})
        return make(self, spark, note.model_copy(update={"late": 0}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "options", too_much)
        assert _ends(_bronze(lake_spark, shared_server.url, delta, tmp_path), delta, "bronze")
    with pytest.raises(AssertionError, match="rows are behind a note"):
        check(read(delta, "bronze", "key", "event_time"))


def test_a_batch_that_is_repeated_without_its_transaction_is_found(
    lake_spark: SparkSession,
    shared_server: ServerProcess,
    lake: Lake,
    times: list[int],
    tmp_path: Path,
) -> None:
    engine = _engine(lake)
    make = engine.options
    of_batch = {"txnAppId", "txnVersion", "snapshot-property.tidegauge.query"}

    def without(self: Any, spark: SparkSession, note: Note) -> dict[str, str]:
        told = make(self, spark, note)
        return {name: value for name, value in told.items() if name not in of_batch}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "options", without)
        _dying(patch, lake, (2, "after"))
        _to_the_end(
            lambda: _bronze(lake_spark, shared_server.url, lake, tmp_path), lake, "bronze"
        )
    with pytest.raises(AssertionError, match="rows are in two versions"):
        check(read(lake, "bronze", "key", "event_time"))
