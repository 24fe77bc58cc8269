"""What is asked of a Kafka broker about a topic, and a broker that is killed meanwhile."""

import logging
from datetime import timedelta

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.broker import Broker
from tests.kafka import create_topic, produce, quiet
from tests.server import free_port
from tidegauge.client.kafka import BrokerError, Topic, UnknownTopicError


def test_what_is_not_there_is_named(broker: Broker) -> None:
    topic = Topic({"bootstrap.servers": broker.bootstrap}, "nowhere")
    with pytest.raises(UnknownTopicError, match="nowhere"):
        topic.describe()
    nobody = f"127.0.0.1:{free_port()}"
    silent = Topic({"bootstrap.servers": nobody}, "any", retry_for=timedelta(seconds=1))
    with pytest.raises(BrokerError, match=nobody) as refused:
        silent.describe()
    assert "Connection refused; is bootstrap.servers right" in refused.value.reason


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"sasl.pasword": "hidden"}, 'No such configuration property: "sasl.pasword"'),
        ({"security.protocol": "TLS"}, 'Invalid value "TLS"'),
        ({"security.protocol": "hidden", "sasl.password": "hidden"}, r'Invalid value "\*\*\*"'),
    ],
)
def test_a_wrong_setting_is_named_and_no_secret(setting: dict[str, str], told: str) -> None:
    with pytest.raises(BrokerError, match=told) as refused:
        Topic({"bootstrap.servers": "broker:9092", **setting}, "any")
    assert "hidden" not in str(refused.value)


def test_what_librdkafka_repeats_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    silent = Topic({"bootstrap.servers": nobody}, "any", retry_for=timedelta(seconds=1))
    with caplog.at_level(logging.ERROR, "tidegauge.kafka"), pytest.raises(BrokerError):
        silent.describe()
    told = [line for line in caplog.messages if f"{nobody}/bootstrap: Connect" in line]
    assert len(told) == 1


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
    consumer = Consumer(quiet(settings) | {"group.id": "tests"})
    consumer.assign([TopicPartition("killed", 0, 0)])
    (record,) = consumer.consume(1, timeout=30)
    consumer.close()
    assert record.value() == b"first"
