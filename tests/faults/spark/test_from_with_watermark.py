"""The way from `withWatermark` to exact and back, with the blocks of its page."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.broker import Broker
from tests.linked import ROOT
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.spark.kafka_feed import KafkaFeed

_PAGE = ROOT / "docs" / "how-to" / "from-with-watermark.md"
_BLOCK = re.compile(r"^<!-- run: (\w+) -->\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NUMBERS = count(1)
_HOUR = 3_600_000
_MINUTE = 60_000

Run = Callable[[str], dict[str, Any]]


@pytest.fixture
def topic(server: ServerProcess, broker: Broker) -> Iterator[KafkaFeed]:
    """The topic of the page, on a server that the test may kill."""
    with KafkaFeed(server.url, broker.bootstrap, f"moved-{next(_NUMBERS)}") as one:
        one.create(partitions=2)
        yield one


@pytest.fixture
def run(kafka_spark: SparkSession, topic: KafkaFeed, tmp_path: Path) -> Iterator[Run]:
    """Run blocks of the page, which go on from each other."""
    blocks = dict(_BLOCK.findall(_PAGE.read_text()))
    names: dict[str, Any] = {"spark": kafka_spark}

    def run_block(name: str) -> dict[str, Any]:
        block = blocks[name]
        for told, meant in (
            ("127.0.0.1:9092", str(topic.settings["bootstrap.servers"])),
            ("http://127.0.0.1:8470", topic.url),
            ("shop/orders", topic.stream),
            ('"orders"', f'"{topic.topic}"'),
            ("/var/lib/queries", str(tmp_path)),
        ):
            block = block.replace(told, meant)
        exec(block, names)
        return names

    yield run_block
    for query in kafka_spark.streams.active:
        query.stop()


def _counts(spark: SparkSession, place: Path) -> Counter[int]:
    """Count the rows of each hour of a table, from the first hour on."""
    if not any(place.glob("*.parquet")):
        return Counter()
    rows = spark.read.parquet(str(place)).selectExpr("unix_millis(hour) AS at", "count")
    return Counter({one["at"] // _HOUR - 24: one["count"] for one in rows.collect()})


def test_a_query_moves_to_the_exact_watermark_through_an_outage_and_back(
    kafka_spark: SparkSession,
    server: ServerProcess,
    topic: KafkaFeed,
    run: Run,
    tmp_path: Path,
) -> None:
    """Producer b is an hour behind a, so that a delay of ten minutes loses its rows."""
    run("promises")
    run("guess")
    names = run("exact")
    start_guess, start_exact = names["start_guess"], names["start_exact"]
    topic.note(0, writer="b", position={})
    guess, exact = start_guess(), start_exact()

    def write(hour: int, writer: str, partition: int) -> None:
        times = [hour * _HOUR + minute * _MINUTE for minute in range(60)]
        topic.write(*times, partition=partition, headers=[("producer", writer.encode())])

    for hour in range(2):
        write(hour + 1, "a", 0)
        topic.note((hour + 2) * _HOUR, writer="a")
        guess.processAllAvailable()
        write(hour, "b", 1)
        topic.note((hour + 1) * _HOUR, writer="b")
        guess.processAllAvailable()
    wait_until(lambda: _counts(kafka_spark, tmp_path / "exact") == {0: 60, 1: 120})
    names["query"] = exact
    wait_until(lambda: run("complete")["watermark"] >= datetime(1970, 1, 2, 2, tzinfo=UTC))
    compared = run("compare")["both"].collect()
    assert {one["hour"].hour: one["guess"] for one in compared} == {0: None, 1: 60}

    exact.stop()
    server.kill()  # while it is away the old query goes on, and the new one goes on afterwards
    write(3, "a", 0)
    write(2, "b", 1)
    guess.processAllAvailable()
    assert 2 in _counts(kafka_spark, tmp_path / "guess")
    server.start()
    exact = start_exact()
    topic.note(4 * _HOUR, writer="a")
    topic.note(3 * _HOUR, writer="b")
    wait_until(lambda: _counts(kafka_spark, tmp_path / "exact")[2] == 120)

    exact.stop()
    guess.stop()  # and back: the state of the old query is in its checkpoint
    write(5, "a", 0)
    guess = start_guess()
    guess.processAllAvailable()
    assert _counts(kafka_spark, tmp_path / "guess")[3] == 60

    topic.write(5 * _MINUTE, partition=1, headers=[("producer", b"b")])  # a broken promise
    topic.note(6 * _HOUR, writer="b")
    wait_until(lambda: any((tmp_path / "late").glob("*.parquet")))
    wait_until(lambda: len(run("broken")["broken"].count().collect()) == 1)
    assert [tuple(one) for one in run("broken")["broken"].count().collect()] == [("b", 1)]


def test_a_checkpoint_of_the_other_query_is_refused_and_stays_as_it_is(
    topic: KafkaFeed, run: Run, tmp_path: Path
) -> None:
    run("promises")
    run("guess")
    names = run("exact")
    topic.write(_MINUTE)
    topic.note(_HOUR)
    guess = names["start_guess"]()
    guess.processAllAvailable()
    guess.stop()
    (tmp_path / "exact-checkpoint").symlink_to(tmp_path / "guess-checkpoint")
    exact = names["start_exact"]()
    with pytest.raises(StreamingQueryException, match=r"\[1\] sources in the checkpoint"):
        exact.processAllAvailable()
    guess = names["start_guess"]()
    guess.processAllAvailable()
    guess.stop()
