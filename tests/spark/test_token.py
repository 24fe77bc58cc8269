"""A query shows its token to the service, and nowhere else."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_source import read_stream
from spark_source.errors import InvalidOptionError
from spark_source.options.load import read_options
from tests.conftest import NewServer
from tests.spark.feed import DAY
from tests.tokens import Tokens

STREAM = "rides/taxis"


class Guarded(NamedTuple):
    """A service with one event in a stream, and a token that reads it and one that does not."""

    url: str
    reads: str
    writes: str


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, new_server: NewServer
) -> Iterator[Guarded]:
    tokens = Tokens(tmp_path_factory.mktemp("tokens"))
    header = tokens.header("maker", "rides", "operate", "write")
    reads, writes = (
        tokens.text("reader", "rides", "read"),
        tokens.text("writer", "rides", "write"),
    )
    with (
        new_server(tokens=tokens.file) as server,
        httpx.Client(base_url=server.url, headers=header) as client,
    ):
        path = f"/v1/streams/{STREAM}"
        client.put(path, json={"segments": 1}).raise_for_status()
        line = f'{{"key": "k", "event_time": {DAY}, "value": "v"}}'
        query = {"writer": "w", "note_time": str(DAY)}
        ndjson = {"content-type": "application/x-ndjson"}
        events = f"{path}/events"
        client.post(events, params=query, content=line, headers=ndjson).raise_for_status()
        yield Guarded(server.url, reads, writes)


def test_a_query_needs_the_role_read_and_shows_its_token_in_no_plan(
    spark: SparkSession, guarded: Guarded, checkpoint: str
) -> None:
    url, token = guarded.url, guarded.reads
    rides = read_stream(spark, url=url, stream=STREAM, token=token, readerGroup="counts")
    query = (
        rides.writeStream.format("memory")
        .queryName("rides_with_token")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    shown = [_plans(rides), str(query.lastProgress), repr(rides)]
    shown += [one.read_bytes().decode("latin-1") for one in _files(checkpoint)]
    assert spark.table("rides_with_token").count() == 1
    assert "token=*********(redacted)" in shown[0]
    assert not [text for text in shown if token in text]


def test_a_token_that_is_not_enough_fails_the_load_and_is_not_shown(
    spark: SparkSession, guarded: Guarded
) -> None:
    url, token = guarded.url, guarded.writes
    rides = spark.read.format("tidegauge").options(url=url, stream=STREAM, token=token)
    with pytest.raises(PySparkException, match="token 'writer' may not do this") as refused:
        rides.load()
    assert token not in str(refused.value)


def test_a_text_that_cannot_be_a_token_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidOptionError, match="strip what you read") as refused:
        read_options({"url": "http://here", "stream": STREAM, "token": "tg_x\n"})
    assert "tg_x" not in str(refused.value)
    options = read_options({"url": "http://here", "stream": STREAM, "token": "tg_x"})
    assert options.token == "tg_x"
    assert "tg_x" not in repr(options)


def _plans(df: DataFrame) -> str:
    execution = df._jdf.queryExecution()
    return str(execution.toString()) + str(execution.analyzed().toString())


def _files(folder: str) -> list[Path]:
    return [one for one in Path(folder).rglob("*") if one.is_file()]
