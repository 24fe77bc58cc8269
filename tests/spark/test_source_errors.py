"""Clear errors, and nothing lost."""

import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession

from spark_source import TidegaugeDataSource, plain, read_stream, watermarked
from spark_source.errors import LoadError, TouchedLoadError
from tests.conftest import NewServer
from tests.server import ServerProcess, free_port
from tests.spark.feed import Feed, Followed


def test_a_filter_before_watermarked_is_refused(spark: SparkSession, feed: Feed) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    loaded = spark.readStream.format("tidegauge").options(**feed.options).load()
    with pytest.raises(TouchedLoadError, match="Call watermarked"):
        watermarked(loaded.where("key = 'a'"))


def test_plain_keeps_the_marker_out_of_parquet(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.write(1_000)
    feed.note(2_000)
    query = (
        plain(feed.load(spark))
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    assert query.awaitTermination(60)
    stored = spark.read.parquet(str(tmp_path / "rows"))
    assert stored.count() == 1
    assert all(not field.metadata for field in stored.schema.fields)


def test_a_stream_created_again_under_a_checkpoint_is_refused(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000)
    feed.note(2_000)
    with Followed(feed.load(spark), checkpoint) as followed:
        followed.until_bound(1_999)
    feed.delete()
    feed.create()
    with (
        Followed(feed.load(spark), checkpoint) as followed,
        pytest.raises(StreamingQueryException, match="deleted and created again"),
    ):
        followed.query.awaitTermination(60)


@pytest.fixture(scope="module")
def right(shared_server: ServerProcess) -> dict[str, str]:
    """The options of a load that is right; beside its stream there is an external one."""
    for name, log in (("right", "embedded"), ("external", "external")):
        path = f"{shared_server.url}/v1/streams/spark/{name}"
        httpx.put(path, json={"segments": 2, "log": log}).raise_for_status()
    return {"url": shared_server.url, "stream": "spark/right"}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"maxRowPerTrigger": "5"}, "no such option; did you mean maxRowsPerTrigger?"),
        (
            {"startingTime": "1704110400"},
            "1704110400 lies in early 1970: are these seconds? Times are milliseconds, such as",
        ),
        ({"endingTime": "1704110400"}, "are these seconds?"),
        ({"startingCut": "7:0"}, "there is no segment 7; the stream has those from 0 to 1"),
        (
            {"stream": "spark/none"},
            "no stream spark/none; to create it: tidegauge create spark/none",
        ),
        ({"stream": "spark/external"}, "set log=kafka and kafka.bootstrap.servers"),
        ({"url": f"http://127.0.0.1:{free_port()}"}, "is the service running there?"),
    ],
)
def test_a_wrong_load_fails_at_once_in_two_lines(
    spark: SparkSession, right: dict[str, str], wrong: dict[str, str], told: str
) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    with pytest.raises(AnalysisException) as raised:
        spark.readStream.format("tidegauge").options(**right | wrong).load()
    assert told in str(raised.value)
    assert len(str(raised.value).splitlines()) == 2


def test_read_stream_tells_in_one_line_what_is_wrong_with_a_load(
    spark: SparkSession, right: dict[str, str]
) -> None:
    with pytest.raises(LoadError) as raised:
        read_stream(spark, url=right["url"], stream=right["stream"], startingTime="noon")
    assert str(raised.value).startswith(
        "spark_source.errors.InvalidOptionError: option 'startingTime': 'noon' is not an event time"
    )
    assert len(str(raised.value).splitlines()) == 1


def test_a_batch_read_takes_no_reader_group(spark: SparkSession, feed: Feed) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    options = feed.options | {"readerGroup": "spark/group"}
    loaded = spark.read.format("tidegauge").options(**options).load()
    with pytest.raises(
        AnalysisException, match="is for streaming reads; leave it out"
    ) as raised:
        loaded.collect()
    assert len(str(raised.value).splitlines()) <= 2


@pytest.fixture
def own_feed(server: ServerProcess) -> Iterator[Feed]:
    """A stream on a server that the test may kill."""
    with Feed(server.url, "spark/own") as one:
        one.create()
        yield one


def test_a_query_outlives_an_outage_of_the_service_and_loses_nothing(
    spark: SparkSession, server: ServerProcess, own_feed: Feed, checkpoint: str
) -> None:
    own_feed.write(1_000)
    own_feed.note(2_000)
    with Followed(own_feed.load(spark).select("offset"), checkpoint) as followed:
        followed.until_bound(1_999)
        server.kill()
        server.start()
        own_feed.write(3_000)
        own_feed.note(4_000)
        followed.until_bound(3_999)
    assert followed.rows == [(0,), (1,)]


def test_a_stopped_service_delays_a_query_and_fails_nothing(
    spark: SparkSession, server: ServerProcess, own_feed: Feed, checkpoint: str
) -> None:
    own_feed.write(1_000)
    own_feed.note(2_000)
    rows = own_feed.load(spark).select("offset")
    server.process.send_signal(signal.SIGSTOP)
    with Followed(rows, checkpoint) as followed:
        followed.until(lambda: followed.query.isActive, "its start")
        server.process.send_signal(signal.SIGCONT)
        followed.until_bound(1_999)
    assert followed.rows == [(0,)]


@dataclass(frozen=True)
class CutOff:
    """A stream, the options of its query, and the query's checkpoint."""

    feed: Feed
    options: dict[str, str]
    checkpoint: str

    def follow(self, spark: SparkSession) -> Followed:
        """Start the query."""
        rows = self.feed.load(spark, **self.options).select("offset")
        return Followed(rows, self.checkpoint)


_STARTS: dict[str, dict[str, str]] = {
    "alone": {},
    "grouped": {"readerGroup": "grouped"},
    "told otherwise": {"readerGroup": "told", "failOnDataLoss": "false"},
}


@pytest.fixture(scope="module")
def cut_off(
    spark: SparkSession, new_server: NewServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, CutOff]]:
    """Streams that were read to their third event, and restored to when they had one."""
    folder = tmp_path_factory.mktemp("cut-off")
    with new_server() as server, ExitStack() as stack:
        streams = {
            name: CutOff(
                stack.enter_context(Feed(server.url, f"spark/cut-off-{number}")),
                options,
                str(folder / f"checkpoint-{number}"),
            )
            for number, (name, options) in enumerate(_STARTS.items())
        }
        for one in streams.values():
            one.feed.create()
            one.feed.write(1_000)
        _back_up(server.database, folder / "backup.db")
        for one in streams.values():
            one.feed.write(2_000, 3_000)
            with one.follow(spark) as followed:
                followed.query.processAllAvailable()
                assert followed.rows == [(0,), (1,), (2,)]
        server.stop()
        shutil.copy(folder / "backup.db", server.database)
        server.start()
        yield streams


def _back_up(database: Path, copy: Path) -> None:
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


@pytest.mark.parametrize("name", ["alone", "grouped"])
def test_a_log_that_ends_before_the_checkpoint_fails(
    spark: SparkSession, cut_off: dict[str, CutOff], name: str
) -> None:
    with (
        cut_off[name].follow(spark) as followed,
        pytest.raises(StreamingQueryException, match="needs segment 0 from offset 3"),
    ):
        followed.query.awaitTermination(60)


def test_a_log_that_ends_before_the_checkpoint_is_read_on_where_that_is_wanted(
    spark: SparkSession, cut_off: dict[str, CutOff]
) -> None:
    with cut_off["told otherwise"].follow(spark) as followed:
        cut_off["told otherwise"].feed.write(4_000, 5_000, 6_000)
        followed.until(lambda: followed.rows == [(3,)], "what came after the checkpoint")
