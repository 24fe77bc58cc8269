"""Topics on a real broker, for tests."""

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.patience import PATIENCE_S, wait_until


def create_topic(
    brokers: str | Mapping[str, Any], topic: str, *, partitions: int = 1, **config: object
) -> None:
    """Create a topic, and wait until it is there; brokers are an address, or settings of a client."""
    named = {name.replace("_", "."): str(value) for name, value in config.items()}
    settings: dict[str, Any] = (
        {"bootstrap.servers": brokers} if isinstance(brokers, str) else dict(brokers)
    )
    admin = AdminClient(settings)
    created = admin.create_topics([NewTopic(topic, partitions, 1, config=named)])
    for outcome in created.values():
        outcome.result(PATIENCE_S)
    wait_until(lambda: topic in admin.list_topics(timeout=PATIENCE_S).topics)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic, and wait until it is gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    wait_until(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics)


def produce(bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]]) -> None:
    """Produce records, each of what `Producer.produce` takes, and wait until all are stored."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for record in records:
        producer.produce(topic, **record)
    assert producer.flush(PATIENCE_S) == 0


def delete_records(bootstrap: str, topic: str, before: Mapping[int, int]) -> None:
    """Drop what lies before an offset of a partition, as retention does."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    places = [TopicPartition(topic, number, offset) for number, offset in before.items()]
    for outcome in admin.delete_records(places).values():
        outcome.result(PATIENCE_S)
