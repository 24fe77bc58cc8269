"""What Spark makes of a wrong load, of its token, and of the marker that a stream's times have."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from spark_source import TidegaugeDataSource, plain, read_stream
from spark_source.errors import LoadError
from spark_source.options.load import read_options
from tests.conftest import NewServer
from tests.server import free_port
from tests.service.api import Api
from tests.spark.feed import Feed, Followed
from tests.tokens import Tokens


def test_a_wrong_load_fails_at_once_in_two_lines_and_read_stream_in_one(
    spark: SparkSession, feed: Feed
) -> None:
    """Which loads are wrong, is for tests without Spark."""
    spark.dataSource.register(TidegaugeDataSource)
    nowhere = feed.options | {"url": f"http://127.0.0.1:{free_port()}"}
    with pytest.raises(AnalysisException, match="is the service running there") as raised:
        spark.readStream.format("tidegauge").options(**nowhere).load()
    assert len(str(raised.value).splitlines()) == 2
    with pytest.raises(LoadError) as refused:
        feed.load(spark, startingTime="noon")
    assert str(refused.value).startswith(
        "spark_source.errors.InvalidOptionError: option 'startingTime': 'noon' is not an event time"
    )
    assert len(str(refused.value).splitlines()) == 1


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


def test_a_query_shows_its_token_in_no_plan_and_no_log(
    spark: SparkSession, new_server: NewServer, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path)
    maker, reads = (tokens.text(role, "rides", role) for role in ("operate", "read"))
    with new_server(tokens=tokens.file) as server, Api(server.url, "rides/taxis") as api:
        api.client.headers["authorization"] = f"Bearer {maker}"
        api.create(log="embedded")
        options: Any = {"url": server.url, "stream": api.name, "token": reads}
        rides = read_stream(spark, **options, readerGroup="counts")
        checkpoint = tmp_path / "checkpoint"
        with Followed(rides, str(checkpoint)) as followed:
            followed.query.processAllAvailable()
        files = [file for file in checkpoint.rglob("*") if file.is_file()]
        shown = [_plans(rides), str(followed.query.lastProgress), repr(rides)]
        shown += [file.read_bytes().decode("latin-1") for file in files]
        assert "token=*********(redacted)" in shown[0]
        assert not [text for text in shown if reads in text]
        assert reads not in repr(read_options(options))


def _plans(df: DataFrame) -> str:
    execution = df._jdf.queryExecution()
    return str(execution.toString()) + str(execution.analyzed().toString())
