"""Topics on a real broker, and clients of it, for tests."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.patience import PATIENCE_S, wait_until

Brokers: TypeAlias = str | Mapping[str, Any]
"""Their address, or settings of a client."""


def quiet(brokers: Brokers) -> dict[str, Any]:
    """Make settings of a client that does not print that a broker was stopped."""
    named = {"bootstrap.servers": brokers} if isinstance(brokers, str) else brokers
    return {**named, "log_level": 0}


def create_topic(
    brokers: Brokers, topic: str, *, partitions: int = 1, **config: object
) -> None:
    """Create a topic, and wait until it is there."""
    named = {name.replace("_", "."): str(value) for name, value in config.items()}
    admin = AdminClient(quiet(brokers))
    created = admin.create_topics([NewTopic(topic, partitions, 1, config=named)])
    for outcome in created.values():
        outcome.result(PATIENCE_S)
    wait_until(lambda: topic in admin.list_topics(timeout=PATIENCE_S).topics)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    admin = AdminClient(quiet(bootstrap))
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    wait_until(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics)


def produce(bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]]) -> None:
    """Produce records, each of what `Producer.produce` takes, and wait until all are stored."""
    producer = Producer(quiet(bootstrap))
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(PATIENCE_S) == 0


def delete_records(bootstrap: str, topic: str, before: Mapping[int, int]) -> None:
    """Drop what lies before an offset of a partition, as retention does."""
    admin = AdminClient(quiet(bootstrap))
    places = [TopicPartition(topic, number, offset) for number, offset in before.items()]
    for outcome in admin.delete_records(places).values():
        outcome.result(PATIENCE_S)
