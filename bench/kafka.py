"""Reading a topic with log=kafka against Spark's own Kafka connector, per processor second."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession

from bench import servers
from reader_client import StreamClient
from spark_source import TidegaugeDataSource
from tidegauge_cli.demo.kafka.broker import Broker
from tidegauge_cli.demo.kafka.jars import connector_jars

_ROWS = int(os.environ.get("BENCH_ROWS", "1000000"))
_ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
_PARTITIONS = 4
_TOPIC = "rides"
_FIRST_TIME = 1_700_000_000_000
_VALUE = b"x" * 100


def measure() -> Iterator[tuple[str, str, str]]:
    """Read the same topic by both, in turn, into a sink that does nothing.

    A short form: ``BENCH_ROWS=100000 BENCH_ROUNDS=2``.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .config("spark.jars", ",".join(map(str, connector_jars())))
        .getOrCreate()
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker(Path(folder) / "broker") as broker,
        servers.service(Path(folder)) as url,
    ):
        _fill(broker.bootstrap)
        with StreamClient(url, f"bench/{_TOPIC}") as client:
            client.create(log="external", segments=_PARTITIONS)
        at = {"kafka.bootstrap.servers": broker.bootstrap}
        spark.dataSource.register(TidegaugeDataSource)
        ours = spark.read.format("tidegauge").options(
            url=url, stream=f"bench/{_TOPIC}", log="kafka", **at
        )
        theirs = spark.read.format("kafka").options(
            subscribe=_TOPIC, includeHeaders="true", **at
        )
        sources = [ours.load(), theirs.load()]
        used = _Processors(spark)
        for df in sources:
            _cost(used, df)  # compiles the code, which is no part of the rate
        rounds = [[_cost(used, df) for df in sources] for _ in range(_ROUNDS)]
    spark.stop()
    ratio = median(theirs[1] / ours[1] for ours, theirs in rounds)
    goals = f"{ratio:.2f} of Spark's (goal ≥ 0.5)", "the reference"
    for place, name in enumerate(("tidegauge, log=kafka", "Spark's own connector")):
        seconds, processor_s = (median(one[place][what] for one in rounds) for what in range(2))
        yield (
            name,
            f"{_ROWS / processor_s:,.0f} rows per processor second, {_ROWS / seconds:,.0f} rows/s",
            goals[place],
        )


def _fill(bootstrap: str) -> None:
    """Produce the rows, evenly over the partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(_TOPIC, _PARTITIONS, 1, config={"retention.ms": "-1"})]
    for outcome in admin.create_topics(topics).values():
        outcome.result(60)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 500_000}
    )
    for number in range(_ROWS):
        producer.produce(
            _TOPIC,
            _VALUE,
            key=str(number % 1_000),
            partition=number % _PARTITIONS,
            timestamp=_FIRST_TIME + number,
        )
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


class _Processors:
    """Adds up what Spark's JVM and its Python workers have used, workers that ended included.

    The broker and the service are not theirs.
    """

    def __init__(self, spark: SparkSession) -> None:
        gateway = spark.sparkContext._gateway  # noqa: SLF001 (no public way)
        self._jvm = psutil.Process(gateway.proc.pid if gateway is not None else None)
        self._used = dict[psutil.Process, float]()

    def seconds(self) -> float:
        """Look at all that run now, and add what was seen of the others."""
        for one in (self._jvm, *self._jvm.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                self._used[one] = sum(one.cpu_times()[:2])
        return sum(self._used.values())


def _cost(used: _Processors, df: DataFrame) -> tuple[float, float]:
    """Read everything; return how long it took, and how much of processors, s."""
    began, before = time.perf_counter(), used.seconds()
    df.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began, used.seconds() - before
