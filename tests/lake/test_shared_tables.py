"""Several jobs append to one table, and note time to its stream."""

from collections.abc import Iterator
from os.path import relpath
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from reader_client import StreamClient
from spark_source.errors import InvalidOptionError, TableTakenError
from spark_source.sink.engines import Delta, Iceberg
from tests.lake.jobs import TABLE, Job, note_of, times
from tests.lake.lakes import Lake
from tests.lake.laws import Version, check, check_marks, read
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.api import Api
from tests.spark.feed import Feed
from tidegauge.errors import StreamSealedError
from tidegauge.event_time import END_OF_TIME
from tidegauge.marks import Mark

_BEGIN, _STEP, _BATCHES = 1_000_000, 1_000, 4


@pytest.fixture
def stream(shared_server: ServerProcess, lake: Lake) -> Iterator[Api]:
    with Api(shared_server.url, f"lake/{lake.space}-shared") as api:
        api.create(mark_resolution_ms=0)
        yield api


def _job(spark: SparkSession, lake: Lake, folder: Path, api: Api, **how: Any) -> Job:
    return Job(spark, lake, folder, **{"url": api.url, "stream": api.name, **how})


def _marks(api: Api) -> list[Mark]:
    with StreamClient(api.url, api.name) as client:
        return client.marks()


def _by_turns(spark: SparkSession, lake: Lake, folder: Path, api: Api) -> list[Version]:
    """Let two jobs append by turns, each behind its own time; return the table's versions."""
    random = Random(7)
    jobs = [_job(spark, lake, folder / name, api) for name in ("one", "two")]
    for job in jobs:  # both are known before either notes
        job.batch(bound=_BEGIN)
    order = [0, 1] * _BATCHES
    random.shuffle(order)
    bounds = [_BEGIN, _BEGIN]
    for place in order:
        at, bounds[place] = bounds[place], bounds[place] + random.randrange(_STEP)
        found = [at + random.randrange(2 * _STEP) for _ in range(3)]
        jobs[place].batch(*found, bound=bounds[place])
    bounds[1] += 10 * _STEP  # it is ahead as the other one ends
    jobs[1].batch(bound=bounds[1])
    for job, at in zip(jobs, bounds, strict=True):
        job.batch(at + _STEP, bound=END_OF_TIME)
        job.sink.close()
    return read(lake, TABLE, "key", "event_time")


def test_no_row_of_several_jobs_is_behind_a_mark_and_each_note_is_one(
    lake_spark: SparkSession, stream: Api, lake: Lake, tmp_path: Path
) -> None:
    versions = _by_turns(lake_spark, lake, tmp_path, stream)
    check_marks(versions, _marks(stream))
    check(versions)
    assert sum(len(one.rows) for one in versions) == 2 * (_BATCHES * 3 + 1)
    assert len({one.until for one in versions}) > 3
    assert not any(one.late for one in versions)


def test_a_job_of_a_stream_enters_only_a_table_of_this_stream_or_takes_it_over(
    lake_spark: SparkSession, stream: Api, lake: Lake, tmp_path: Path
) -> None:
    def job(name: str, **how: Any) -> Job:
        return _job(lake_spark, lake, tmp_path / name, stream, **how)

    alone = Job(lake_spark, lake, tmp_path / "alone", job="alone")
    alone.batch(1_000, bound=5_000)
    with pytest.raises(
        TableTakenError, match=r"job 'alone' declares its time, .*take_over=True"
    ):
        job("one").batch(4_000, bound=4_000)
    assert note_of(lake).job == "alone"
    job("one", take_over=True).batch(4_000, bound=4_000)
    job("two").batch(6_000, bound=4_500)
    with pytest.raises(TableTakenError, match=f"stream '{stream.name}' declares its time"):
        alone.batch(7_000, bound=8_000)
    with Api(stream.url, f"{stream.name}-wrong") as wrong:
        wrong.create()
        with pytest.raises(TableTakenError, match=f"stream '{stream.name}' declares its time"):
            _job(lake_spark, lake, tmp_path / "three", wrong).batch(7_000, bound=8_000)
        with StreamClient(wrong.url, wrong.name) as client:
            assert not client.writers()  # it does not hold who it does not append with
    assert (note_of(lake).job, note_of(lake).until) == (stream.name, 5_000)
    assert times(lake) == [1_000, 4_000, 6_000]


def test_a_position_below_the_own_commit_is_found(
    lake_spark: SparkSession,
    stream: Api,
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Delta if lake.format == "delta" else Iceberg
    newest = engine.newest_version
    monkeypatch.setattr(
        engine, "newest_version", lambda self, spark: max(0, newest(self, spark) - 2)
    )
    versions = _by_turns(lake_spark, lake, tmp_path, stream)
    with pytest.raises(AssertionError, match="rows are behind a mark"):
        check_marks(versions, _marks(stream))


def test_a_batch_that_is_repeated_notes_again_and_a_sealed_stream_stays_sealed(
    lake_spark: SparkSession, stream: Api, lake: Lake, tmp_path: Path
) -> None:
    # A relative path is one as well, and quotes are part of it.
    path = {"table": relpath(lake.table("it's `mine`"))} if lake.format == "delta" else {}

    def job() -> Job:
        return _job(lake_spark, lake, tmp_path / "q", stream, seal=True, **path)

    def dies(*_: object) -> None:
        raise ConnectionError

    first = job()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_source.sink.job.TableService.note", dies)
        with pytest.raises(ConnectionError):
            first.batch(1_000, bound=2_000)
    assert not _marks(stream)
    again = job()
    again.batch(1_000, bound=2_000, again=True)
    assert [mark.lower for mark in _marks(stream)] == [2_000]
    again.batch(3_000, bound=END_OF_TIME)
    job().batch(3_000, bound=END_OF_TIME, again=True)
    for bound in (5_000, END_OF_TIME):  # a job that comes later appends nothing
        late = _job(lake_spark, lake, tmp_path / f"late-{bound}", stream, seal=True, **path)
        with pytest.raises(StreamSealedError, match="is sealed"):
            late.batch(4_000, bound=bound)
    last = job()
    last.batch(bound=END_OF_TIME)
    last.sink.close()
    versions = read(lake, "it's `mine`" if path else TABLE, "key", "event_time")
    check_marks(versions, marks := _marks(stream))
    assert marks[-1].lower == END_OF_TIME
    assert sorted(time for one in versions for _, time in one.rows) == [1_000, 3_000]


def test_a_table_of_two_jobs_ends_with_the_second_of_their_sources(
    lake_spark: SparkSession,
    stream: Api,
    lake: Lake,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, two = (_job(lake_spark, lake, tmp_path / n, stream, seal=True) for n in ("one", "two"))
    for bound in (1_000, 2_000):  # both are known before there are rows
        for job in (one, two):
            job.batch(*range(1_000, bound, 500), bound=bound)
    one.batch(3_000, bound=END_OF_TIME)
    assert "the stream is sealed once 'two' has ended" in caplog.text
    assert _marks(stream)[-1].lower == 2_000
    two.batch(4_000, bound=5_000)
    two.batch(6_000, bound=END_OF_TIME)
    for job in (one, two):
        job.sink.close()
    check_marks(read(lake, TABLE, "key", "event_time"), marks := _marks(stream))
    assert [mark.lower for mark in marks] == [1_000, 2_000, 5_000, END_OF_TIME]


def test_a_query_beats_until_it_is_closed_on_a_stream_whose_offsets_are_versions(
    lake_spark: SparkSession, feed: Feed, stream: Api, lake: Lake, tmp_path: Path
) -> None:
    def is_dropped_while_another_is_ahead(writer: str) -> bool:
        stream.note("ahead", 5_000, 0)
        with StreamClient(stream.url, stream.name) as client:
            states = {one.writer: one.state for one in client.writers()}
        return states[writer] not in {"joining", "active", "behind"}

    job = _job(lake_spark, lake, tmp_path / "other", stream, stream=feed.stream)
    with pytest.raises(InvalidOptionError, match="no versions of a table; create one"):
        job.batch(1_000, bound=2_000)
    stream.change(aggregation_timeout_ms=4_000)
    stream.note("silent", 1_500, 0)
    job = _job(lake_spark, lake, tmp_path / "q", stream)
    job.batch(1_000, bound=2_000)
    wait_until(lambda: is_dropped_while_another_is_ahead("silent"))
    assert not is_dropped_while_another_is_ahead("q")
    job.sink.close()
    wait_until(lambda: is_dropped_while_another_is_ahead("q"))
