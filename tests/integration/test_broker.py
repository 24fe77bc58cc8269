"""The broker that the demo and the tests start."""

from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.kafka import create_topic, produce
from tidegauge.client.kafka import Topic
from tidegauge_cli.demo.kafka.broker import Broker


def test_a_killed_broker_comes_back_with_its_records_and_who_asked_it_goes_on(
    tmp_path: Path,
) -> None:
    with Broker(tmp_path / "broker") as broker:
        create_topic(broker.bootstrap, "orders")
        produce(broker.bootstrap, "orders", [{"value": b"first"}])
        settings = {"bootstrap.servers": broker.bootstrap}
        topic = Topic(settings, "orders")
        assert topic.ends([0]) == {0: 1}
        broker.kill()
        broker.start()
        # It leads by a new epoch, which a client that asks nobody anew would never hear of.
        assert topic.ends([0]) == {0: 1}
        consumer = Consumer({**settings, "group.id": "tests"})
        consumer.assign([TopicPartition("orders", 0, 0)])
        (record,) = consumer.consume(1, timeout=30)
        consumer.close()
    assert record.value() == b"first"
