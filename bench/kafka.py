"""Reading a topic with log=kafka against Spark's own Kafka connector, per processor second."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession

from bench import servers
from reader_client import StreamClient
from spark_source import TidegaugeDataSource, follow
from tests.broker import Broker
from tests.kafka_jars import connector_jars
from writer_client import TimeReporter

_ROWS = int(os.environ.get("BENCH_ROWS", "1000000"))
_ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
_PARTITIONS = 4
_TOPIC = "rides"
_FIRST_TIME = 1_700_000_000_000
_VALUE = b"x" * 100
_STREAM = f"bench/{_TOPIC}"
_MARKS = 10
_SPARKS = "Spark's own connector"
_STREAMING = 2
"""Where the ways to read begin that are streaming."""


def measure() -> Iterator[tuple[str, str, str]]:
    """Read the same topic by each, in turn, into a sink that does nothing: batch and streaming.

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
        with StreamClient(url, _STREAM) as client:
            client.create(log="external", segments=_PARTITIONS)
        with TimeReporter(url, _STREAM, "bench") as reporter:
            for part in range(1, _MARKS + 1):
                end = _ROWS * part // (_MARKS * _PARTITIONS)
                reporter.note_time(_FIRST_TIME + part, dict.fromkeys(range(_PARTITIONS), end))
        at = {"kafka.bootstrap.servers": broker.bootstrap}
        spark.dataSource.register(TidegaugeDataSource)
        ours = {"url": url, "stream": _STREAM, "log": "kafka", **at}
        theirs = {"subscribe": _TOPIC, "includeHeaders": "true", **at}

        def batch(kind: str, options: dict[str, str]) -> Callable[[Path], None]:
            df = spark.read.format(kind).options(**options).load()
            return lambda _: df.write.format("noop").mode("overwrite").save()

        def streaming(kind: str, options: dict[str, str]) -> DataFrame:
            more = {"startingOffsets": "earliest"}
            return spark.readStream.format(kind).options(**options, **more).load()

        def followed(checkpoint: Path) -> None:
            df = streaming("kafka", theirs)
            exact = follow(
                df,
                event_time="timestamp",
                url=url,
                stream=_STREAM,
                topic=_TOPIC,
                checkpoint=str(checkpoint),
            )
            _drain(exact, checkpoint)

        ways: dict[str, Callable[[Path], None]] = {
            _SPARKS: batch("kafka", theirs),
            "log=kafka (≥ 0.5)": batch("tidegauge", ours),
            f"{_SPARKS}, streaming": lambda to: _drain(streaming("kafka", theirs), to),
            "log=kafka, streaming (≥ 0.5)": lambda to: _drain(streaming("tidegauge", ours), to),
            "follow, streaming (≥ 0.8)": followed,
        }
        used = _Processors(spark)
        rounds = []
        for number in range(_ROUNDS + 1):
            places = [Path(folder) / f"{number}-{nth}" for nth in range(len(ways))]
            rounds.append(
                [
                    _cost(used, partial(run, to))
                    for run, to in zip(ways.values(), places, strict=True)
                ]
            )
    spark.stop()
    del rounds[0]  # compiles the code, which is no part of the rate
    for place, name in enumerate(ways):
        seconds, processor_s = (median(one[place][what] for one in rounds) for what in range(2))
        reference = 0 if place < _STREAMING else _STREAMING
        ratio = median(one[reference][1] / one[place][1] for one in rounds)
        yield (
            name,
            f"{_ROWS / processor_s:,.0f} rows per processor second, {_ROWS / seconds:,.0f} rows/s",
            "the reference" if place == reference else f"{ratio:.2f} of Spark's",
        )


def _drain(df: DataFrame, checkpoint: Path) -> None:
    """Read as a query all that is there."""
    written = df.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    written.trigger(availableNow=True).start().awaitTermination()


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


def _cost(used: _Processors, read: Callable[[], None]) -> tuple[float, float]:
    """Read everything; return how long it took, and how much of processors, s."""
    began, before = time.perf_counter(), used.seconds()
    read()
    return time.perf_counter() - began, used.seconds() - before
