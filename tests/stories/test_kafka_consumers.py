"""Time windows of consumers of a real broker, over a real server."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from reader_client.kafka import TimeWindows
from tests.broker import Broker
from tests.kafka import create_topic, produce, quiet
from tests.patience import wait_until
from tests.service.api import MINUTE, NOON, Api, Open
from tidegauge.client.kafka import BrokerError, UnknownTopicError
from tidegauge.windows import TimeWindow

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")


@pytest.fixture
def shop(open_shop: Open, broker: Broker) -> Api:
    """A stream with two partitions of two records each, and marks behind one and two of each."""
    shop = open_shop(segments=2)
    create_topic(broker.bootstrap, shop.topic, partitions=2)
    records = [{"value": b"x", "partition": partition} for partition in (0, 1)]
    produce(broker.bootstrap, shop.topic, records * 2)
    for nth in (1, 2):
        shop.says("w", "note-time", time=NOON + nth * MINUTE, position={"0": nth, "1": nth})
    return shop


@contextmanager
def _consumer(broker: Broker, group: str) -> Iterator[Consumer]:
    settings = quiet(broker.bootstrap) | {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings)
    yield consumer
    consumer.close()


def _begin(topic: str, *partitions: int) -> list[TopicPartition]:
    """Name the beginning: a new broker fails to tell for a while that nothing is committed."""
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions]


def _read(consumer: Consumer, count: int) -> None:
    for _ in range(count):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None


def test_a_consumer_of_all_partitions_has_the_window_of_what_it_has_read(
    broker: Broker, shop: Api
) -> None:
    with (
        _consumer(broker, shop.topic) as consumer,
        TimeWindows(consumer, shop.url, shop.name) as windows,
    ):
        consumer.assign(_begin(shop.topic, 0, 1))
        assert windows.get_time_window() == TimeWindow(None, NOON + MINUTE)
        _read(consumer, 4)
        assert windows.position() == {0: 2, 1: 2}
        assert windows.get_time_window() == TimeWindow(NOON + 2 * MINUTE, None)
        consumer.seek(TopicPartition(shop.topic, 0, 1))
        _read(consumer, 1)
        assert windows.position() == {0: 2, 1: 2}


def test_what_others_of_the_group_read_counts_once_they_commit_it(
    broker: Broker, shop: Api
) -> None:
    with (
        _consumer(broker, shop.topic) as one,
        _consumer(broker, shop.topic) as other,
        TimeWindows(one, shop.url, shop.name) as windows,
        TimeWindows.of_group(
            shop.topic, {"bootstrap.servers": broker.bootstrap}, shop.url, shop.name
        ) as of_group,
    ):
        one.assign(_begin(shop.topic, 0))
        other.assign(_begin(shop.topic, 1))
        _read(one, 2)
        _read(other, 1)
        assert windows.position() == {0: 2, 1: 0}
        assert windows.get_time_window().lower is None
        other.commit(asynchronous=False)
        assert windows.get_time_window() == TimeWindow(NOON + MINUTE, NOON + 2 * MINUTE)
        assert of_group.position() == {0: 0, 1: 1}
        one.commit(asynchronous=False)
        _read(other, 1)
        other.commit(asynchronous=False)
        assert of_group.get_time_window() == TimeWindow(NOON + 2 * MINUTE, None)


def test_a_position_beyond_the_end_of_the_topic_says_nothing_of_what_was_read(
    broker: Broker, shop: Api, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"bootstrap.servers": broker.bootstrap}
    with (
        _consumer(broker, shop.topic) as consumer,
        TimeWindows(consumer, shop.url, shop.name) as windows,
        TimeWindows.of_group(shop.topic, settings, shop.url, shop.name) as of_group,
    ):
        committed = [TopicPartition(shop.topic, number, at) for number, at in ((0, 2), (1, 40))]
        consumer.assign(committed)
        consumer.commit(offsets=committed, asynchronous=False)
        for _ in range(2):
            assert [windows.position(), of_group.position()] == [{0: 2, 1: 0}] * 2
        assert of_group.get_time_window().lower is None
    (said,) = {one.getMessage() for one in caplog.records if one.name == "tidegauge.kafka"}
    assert said.startswith(
        f"partition 1 of {shop.topic} ends at 2, and the position there is 40"
    )


def test_a_partition_that_no_writer_has_named_holds_no_window_up(
    open_shop: Open, broker: Broker
) -> None:
    shop = open_shop(segments=1)
    create_topic(broker.bootstrap, shop.topic, partitions=2)
    produce(broker.bootstrap, shop.topic, [{"value": b"x", "partition": 0}])
    shop.note("w", NOON, 1)
    with (
        _consumer(broker, shop.topic) as consumer,
        TimeWindows(consumer, shop.url, shop.name) as windows,
    ):
        consumer.assign(_begin(shop.topic, 0, 1))
        _read(consumer, 1)
        wait_until(lambda: windows.get_time_window() == TimeWindow(NOON, None))


def test_a_consumer_of_nothing_is_told(
    open_shop: Open,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = open_shop()
    settings = {"bootstrap.servers": broker.bootstrap}
    with (
        TimeWindows.of_group("nobody", settings, shop.url, shop.name) as windows,
        pytest.raises(UnknownTopicError, match=shop.topic),
    ):
        windows.get_time_window()
    monkeypatch.setattr("reader_client.kafka._CALL_S", 0.5)
    silent = {"bootstrap.servers": "127.0.0.1:1"}
    with (
        TimeWindows.of_group("nobody", silent, shop.url, shop.name) as windows,
        pytest.raises(BrokerError),
    ):
        windows.get_time_window()
