"""What is asked of a Kafka broker about a topic."""

import logging
from datetime import timedelta

import pytest

from tests.broker import Broker
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
    told = [one for one in caplog.messages if f"{nobody}/bootstrap: Connect" in one]
    assert len(told) == 1
