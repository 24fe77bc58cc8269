"""Reading a topic with log=kafka, and with follow, against Spark's own connector, per processor second."""

from collections.abc import Callable, Iterator
from functools import partial
from tempfile import mkdtemp
from typing import Any

import psutil
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from bench.harness import Row, in_turn, processor_seconds, service, sized
from bench.queries import drain, read_all, spark_session
from reader_client import StreamClient
from spark_source import TidegaugeDataSource, follow
from tests.broker import Broker
from tests.kafka import create_topic
from tests.kafka_jars import connector_jars
from writer_client import TimeReporter

_ROWS = sized(1_000_000)
_ROUNDS = 5
_PARTITIONS = 4
_TOPIC = "rides"
_STREAM = f"bench/{_TOPIC}"
_FIRST_TIME = 1_700_000_000_000
_VALUE = b"x" * 100
_MARKS = 10
_BATCH, _STREAMING = "Spark's own connector", "Spark's own connector, streaming"
_GOALS = {
    "log=kafka": (_BATCH, 0.5),
    "log=kafka, streaming": (_STREAMING, 0.5),
    "follow, streaming": (_STREAMING, 0.8),
}


def measure() -> Iterator[Row]:
    """Read the same topic each way, in turn, into a sink that does nothing: batch and streaming."""
    jars = {"spark.jars": ",".join(map(str, connector_jars()))}
    with (
        service() as (url, folder),
        Broker(folder / "broker") as broker,
        spark_session(jars) as spark,
    ):
        _fill(broker.bootstrap, url)
        spark.dataSource.register(TidegaugeDataSource)
        at = {"kafka.bootstrap.servers": broker.bootstrap}
        ours = {"url": url, "stream": _STREAM, "log": "kafka", **at}
        theirs = {"subscribe": _TOPIC, "includeHeaders": "true", **at}

        def batch(source: str, options: dict[str, str]) -> None:
            read_all(spark.read.format(source).options(**options).load())

        def streaming(source: str, options: dict[str, str]) -> DataFrame:
            options = {**options, "startingOffsets": "earliest"}
            return spark.readStream.format(source).options(**options).load()

        def followed() -> None:
            df, checkpoint = streaming("kafka", theirs), mkdtemp(dir=folder)
            exact = follow(
                df,
                event_time="timestamp",
                url=url,
                stream=_STREAM,
                topic=_TOPIC,
                checkpoint=checkpoint,
            )
            drain(exact, checkpoint)

        ways: dict[str, Callable[[], object]] = {
            _BATCH: lambda: batch("kafka", theirs),
            "log=kafka": lambda: batch("tidegauge", ours),
            _STREAMING: lambda: drain(streaming("kafka", theirs), mkdtemp(dir=folder)),
            "log=kafka, streaming": lambda: drain(
                streaming("tidegauge", ours), mkdtemp(dir=folder)
            ),
            "follow, streaming": followed,
        }
        # The JVM and its Python workers; the broker and the service are not theirs.
        costs = {
            name: partial(processor_seconds, way, _jvm(spark)) for name, way in ways.items()
        }
        # The first round compiles the code, which is no part of the rate.
        seconds = in_turn(costs, rounds=_ROUNDS, warm_up=1)
    for name in ways:
        baseline, goal = _GOALS.get(name, (name, 0))
        ratio = f"{seconds.ratio(baseline, name):.2f} of Spark's (≥ {goal})"
        rate = f"{_ROWS / seconds.median(name):,.0f} rows per processor second"
        yield name, rate, "the baseline" if name == baseline else ratio


def _jvm(spark: SparkSession) -> psutil.Process:
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 (no public way)
    return psutil.Process(gateway.proc.pid)


def _fill(bootstrap: str, url: str) -> None:
    """Produce the rows, evenly over the partitions, and note times up to their end."""
    create_topic(bootstrap, _TOPIC, partitions=_PARTITIONS, retention_ms=-1)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 500_000}
    )
    for number in range(_ROWS):
        key, partition, at = str(number % 1_000), number % _PARTITIONS, _FIRST_TIME + number
        producer.produce(_TOPIC, _VALUE, key, partition, timestamp=at)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()
    with StreamClient(url, _STREAM) as client:
        client.create(log="external", segments=_PARTITIONS)
    with TimeReporter(url, _STREAM, "bench") as reporter:
        for part in range(1, _MARKS + 1):
            end = _ROWS * part // (_MARKS * _PARTITIONS)
            reporter.note_time(_FIRST_TIME + part, dict.fromkeys(range(_PARTITIONS), end))
