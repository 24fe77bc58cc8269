"""Fixtures of Spark: one session for all tests of a run, and streams that tests feed step by step."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.broker import Broker
from tests.kafka_jars import connector_jars
from tests.quick_spark import quick_environment
from tests.server import ServerProcess
from tests.spark.feed import Feed
from tests.spark.kafka_feed import KafkaFeed
from tests.spark.session import new_session
from tests.spark.targets import Target

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    settings = {
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.streaming.noDataProgressEventInterval": "100",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in quick_environment().items():
            patch.setenv(name, value)
        session = new_session(SparkSession.builder.master("local[2]"), settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession) -> SparkSession:
    """The one session, which can then read Kafka with Spark's own connector."""
    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture
def feed(shared_server: ServerProcess) -> Iterator[Feed]:
    with Feed(shared_server.url, f"spark/stream-{next(_NUMBERS)}") as feed:
        feed.create()
        yield feed


@pytest.fixture
def target(shared_server: ServerProcess) -> Iterator[Target]:
    """A stream that a query writes to."""
    with Target(shared_server.url, f"spark/target-{next(_NUMBERS)}") as target:
        target.create(segments=2)
        yield target


@pytest.fixture
def topic(broker: Broker, shared_server: ServerProcess) -> Iterator[KafkaFeed]:
    """A topic that the test creates."""
    name = f"topic-{next(_NUMBERS)}"
    with KafkaFeed(shared_server.url, broker.bootstrap, name) as topic:
        yield topic


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
