"""The broker that the demo and the tests start."""

from confluent_kafka import Consumer, TopicPartition

from tests.broker import Broker
from tests.kafka import create_topic, produce
from tidegauge.client.kafka import Topic


def test_a_killed_broker_comes_back_with_its_records_and_who_asked_it_goes_on(
    broker: Broker,
) -> None:
    create_topic(broker.bootstrap, "killed")
    produce(broker.bootstrap, "killed", [{"value": b"first"}])
    settings = {"bootstrap.servers": broker.bootstrap}
    topic = Topic(settings, "killed")
    assert topic.ends([0]) == {0: 1}
    broker.kill()
    broker.start()
    # It leads by a new epoch, which a client that asks nobody anew would never hear of.
    assert topic.ends([0]) == {0: 1}
    consumer = Consumer({**settings, "group.id": "tests"})
    consumer.assign([TopicPartition("killed", 0, 0)])
    (record,) = consumer.consume(1, timeout=30)
    consumer.close()
    assert record.value() == b"first"
