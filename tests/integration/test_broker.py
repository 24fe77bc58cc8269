"""The broker that the demo and the tests start."""

from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.kafka import create_topic, produce
from tidegauge.client.kafka import Topic
from tidegauge_cli.demo.kafka.broker import Broker


def test_a_killed_broker_comes_back_with_its_records(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        create_topic(broker.bootstrap, "orders")
        produce(broker.bootstrap, "orders", [{"value": b"first"}])
        topic = Topic({"bootstrap.servers": broker.bootstrap}, "orders")
        assert topic.ends([0]) == {0: 1}
        broker.kill()
        broker.start()
        assert topic.ends([0]) == {0: 1}  # of the leader that there is now
        settings = {"bootstrap.servers": broker.bootstrap, "group.id": "tests"}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("orders", 0, 0)])
        (record,) = consumer.consume(1, timeout=30)
        consumer.close()
    assert record.value() == b"first"
