"""What is asked of a Kafka broker about a topic."""

import logging
from datetime import timedelta

import pytest
from confluent_kafka import Producer

from tests.kafka import create_topic, produce
from tests.patience import wait_until
from tests.server import free_port
from tidegauge.client.kafka import BrokerError, Topic, UnknownTopicError
from tidegauge_cli.demo.kafka.broker import Broker


def test_an_open_transaction_ends_what_is_readable_but_not_what_is_written(
    broker: Broker,
) -> None:
    create_topic(broker.bootstrap, "ends", partitions=2)
    produce(broker.bootstrap, "ends", [{"value": b"x", "partition": 1}] * 3)
    settings = {"bootstrap.servers": broker.bootstrap}
    topic = Topic(settings, "ends")
    producer = Producer({**settings, "transactional.id": "ends"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("ends", b"open", partition=1)
    producer.flush(30)

    assert topic.describe().partitions == (0, 1)
    assert topic.starts() == {0: 0, 1: 0}
    assert topic.ends() == {0: 0, 1: 3}
    assert topic.high_watermarks() == {0: 0, 1: 4}

    producer.commit_transaction(30)
    wait_until(lambda: topic.ends() == {0: 0, 1: 5})  # the commit itself takes an offset


def test_a_topic_created_again_has_another_id(broker: Broker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap}
    create_topic(broker.bootstrap, "again")
    topic = Topic(settings, "again")
    first = topic.describe().topic_id
    topic._admin.delete_topics(["again"])["again"].result(30)
    create_topic(broker.bootstrap, "again")
    assert topic.describe().topic_id != first


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
    told = [one for one in caplog.messages if f"{nobody}/bootstrap: Connect" in one]
    assert len(told) == 1
