"""Producers to a real broker that note time over a real server, and what goes wrong with them."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from reader_client import StreamClient
from tests.broker import Broker
from tests.kafka import create_topic
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.api import MINUTE, NOON, Api, Open
from tidegauge.client.kafka import Topic
from tidegauge.errors import WriterFencedError
from writer_client.kafka import DeliveryFailedError, NoAcknowledgementsError, NotingProducer
from writer_client.strategies import BoundedOutOfOrderness

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "tutorials" / "kafka.md"
CRASHES = """\
import sys
from confluent_kafka import Producer
from writer_client.kafka import NotingProducer

bootstrap, url, stream, topic, flushes = sys.argv[1:]
noting = NotingProducer(Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}), url, stream, "api-1")
noting.open()
for number in range(100):
    noting.produce(topic, b"%d" % number, timestamp=1_704_110_400_000 + number)
if flushes == "yes":
    noting.flush()
print("ready", flush=True)
sys.stdin.read()
"""


class _Shop:
    """A stream, its topic, and producers to it."""

    def __init__(self, shop: Api, broker: Broker, url: str, partitions: int) -> None:
        self.shop = shop
        self.broker = broker
        self.url = url
        self.topic = shop.name.split("/")[1]
        # Timestamps are those of the stories, which are years old.
        config = {"retention_ms": -1}
        create_topic(broker.bootstrap, self.topic, partitions=partitions, **config)

    def noting(self, more: dict[str, Any] | None = None, **options: Any) -> NotingProducer:
        """Make a producer that notes."""
        all_of_them = {"bootstrap.servers": self.broker.bootstrap, **(more or {})}
        return NotingProducer(
            Producer(all_of_them), self.url, self.shop.name, "api-1", **options
        )

    def stands(self, at: int) -> Callable[[], bool]:
        """Make a condition of where the watermark stands."""
        return lambda: self.shop.watermark == at


Make = Callable[..., _Shop]
IN_2100 = 4_102_444_800_000


@pytest.fixture
def make(shared_server: ServerProcess, open_shop: Open, broker: Broker) -> Make:
    """Make a stream and its topic."""
    return lambda partitions=1, **more: _Shop(
        open_shop(**{"segments": partitions, **more}), broker, shared_server.url, partitions
    )


def test_a_note_covers_exactly_what_was_produced_before_it(make: Make) -> None:
    one = make(2)
    with one.noting() as noting:
        noting.produce(one.topic, b"1", partition=0)
        noting.produce(one.topic, b"2", partition=1)
        noting.note_time(NOON)
        noting.produce(one.topic, b"3", partition=1)
        wait_until(one.stands(NOON))
        assert one.shop.mark == (NOON, {"0": 1, "1": 1})
        heard: list[int | None] = []
        noting.produce(
            one.topic,
            b"4",
            partition=0,
            on_delivery=lambda _, record: heard.append(record.offset()),
        )
        noting.note_time(NOON + MINUTE)
        wait_until(one.stands(NOON + MINUTE))
        assert one.shop.mark == (NOON + MINUTE, {"0": 2, "1": 2})
        assert heard == [1]


def test_close_sends_the_last_note_and_leave_lets_the_others_go_on(make: Make) -> None:
    one = make()
    with one.noting() as noting:
        noting.produce(one.topic, b"1")
        noting.note_time(NOON)
    assert one.shop.mark == (NOON, {"0": 1})
    assert one.shop.states() == {"api-1": "active"}
    again = one.noting()
    again.produce(one.topic, b"2")
    again.note_time(NOON + MINUTE)
    again.leave()
    assert one.shop.mark == (NOON + MINUTE, {"0": 2})
    assert one.shop.states() == {"api-1": "left"}


def test_a_record_that_is_not_delivered_withholds_notes_until_the_caller_knows(
    make: Make,
) -> None:
    one = make(1)
    with one.noting({"message.max.bytes": 5_000_000}) as noting:
        sent: Any = {"timestamp": NOON, "headers": [("kind", b"large")]}
        noting.produce(one.topic, b"x" * 3_000_000, key=b"big", **sent)
        noting.note_time(NOON)
        noting.flush()
        with pytest.raises(DeliveryFailedError) as raised:
            noting.note_time(NOON + MINUTE)
        (failed,) = raised.value.records
        assert failed.key == b"big"
        assert {"timestamp": failed.timestamp, "headers": failed.headers} == sent
        assert one.shop.watermark is None
        noting.produce(one.topic, b"small")
        noting.note_time(NOON)
        wait_until(one.stands(NOON))
        assert one.shop.mark == (NOON, {"0": 1})


def test_what_failed_is_told_with_what_it_was_produced_with(make: Make) -> None:
    one = make()
    producer = Producer({"bootstrap.servers": one.broker.bootstrap, "linger.ms": 60_000})
    with NotingProducer(producer, one.url, one.shop.name, "api-1") as noting:
        for timestamp in (NOON, NOON, NOON + 1, 0, NOON):
            noting.produce(one.topic, timestamp=timestamp)
        noting.produce(one.topic, timestamp=NOON, headers={"kind": "tea"})
        noting.produce_batch(one.topic, [{"value": "1"}])
        producer.purge()
        while len(producer):  # each failure is handed over on its own
            noting.poll(0.1)
        with pytest.raises(DeliveryFailedError) as raised:
            noting.note_time(NOON)
    told = [(record.timestamp, record.headers) for record in raised.value.records]
    assert sorted(told, key=repr) == [
        (0, None),
        (0, None),
        (NOON, None),
        (NOON, None),
        (NOON, None),
        (NOON, {"kind": "tea"}),
        (NOON + 1, None),
    ]


def test_a_batch_is_covered_by_the_note_behind_it(make: Make) -> None:
    one = make(2)
    heard: list[str] = []

    def hear(said: str) -> Callable[..., None]:
        return lambda _, record: heard.append(f"{said} {record.value().decode()}")

    queue = {"queue.buffering.max.messages": 3, "linger.ms": 500}
    strategy = BoundedOutOfOrderness(timedelta(0))
    with one.noting(queue, strategy=strategy, note_interval=timedelta(hours=1)) as noting:
        batch: list[dict[str, Any]] = [
            {"value": "1", "key": "k", "event_time": NOON},
            {"value": b"2", "partition": 1, "callback": hear("its own")},
            {"value": b"3", "event_time": NOON - MINUTE},
            {"value": b"4"},
        ]
        assert noting.produce_batch(one.topic, batch, 0, on_delivery=hear("default")) == 3
        assert ["_error" in message for message in batch] == [False, False, False, True]
        with pytest.raises(TypeError):
            noting.produce_batch(one.topic, [{"value": b"5"}, {"value": 6}])
        noting.flush()
        assert sorted(heard) == ["default 1", "default 3", "its own 2"]
        assert noting.produce_batch(one.topic, [batch[3]]) == 1
    at, cut = one.shop.mark
    assert at >= NOON
    assert sum(cut.values()) == 4


def test_what_else_a_producer_can_is_there(make: Make) -> None:
    one = make()
    with one.noting() as noting:
        assert one.topic in noting.list_topics(timeout=30).topics
        noting.set_sasl_credentials("orders", "secret")
        other = [name for name in dir(Producer) if not name.startswith("_")]
        assert [name for name in other if not hasattr(noting, name)] == ["cluster_id", "purge"]


def test_a_producer_without_acknowledgements_is_refused(make: Make) -> None:
    one = make()
    deaf = {"bootstrap.servers": one.broker.bootstrap, "acks": "0"}
    with pytest.raises(NoAcknowledgementsError):
        one.noting(deaf, settings=deaf)
    noting = one.noting(deaf)
    noting.produce(one.topic, b"1")
    noting.note_time(NOON)
    noting.flush()
    with pytest.raises(NoAcknowledgementsError, match="acks=all"):
        noting.note_time(NOON + MINUTE)
    with pytest.raises(NoAcknowledgementsError):
        noting.close()
    assert one.shop.watermark is None


def test_notes_of_a_transaction_are_seen_once_it_is_committed_and_never_if_it_is_aborted(
    make: Make,
) -> None:
    one = make()
    with one.noting({"transactional.id": one.topic}) as noting:
        noting.init_transactions(30)
        noting.begin_transaction()
        noting.produce(one.topic, b"1")
        noting.note_time(NOON + MINUTE)
        noting.flush()
        noting.abort_transaction(30)
        noting.begin_transaction()
        noting.produce(one.topic, b"2")
        noting.note_time(NOON)
        noting.flush()
        assert one.shop.watermark is None
        noting.commit_transaction(30)
        wait_until(one.stands(NOON))
        assert one.shop.mark == (NOON, {"0": 3})  # an aborted record, its marker, this one


def test_an_abort_comes_once_the_broker_knows_the_transaction(make: Make) -> None:
    one = make()
    heard: list[object] = []
    with one.noting({"transactional.id": one.topic, "linger.ms": 1_000}) as noting:
        noting.init_transactions(30)
        noting.begin_transaction()
        noting.produce(one.topic, b"1", on_delivery=lambda error, _: heard.append(error))
        noting.note_time(NOON)
        noting.abort_transaction(30)
    assert heard == [None]  # what is purged instead may not be registered yet
    assert one.shop.watermark is None


def test_nothing_is_noted_before_former_processes_of_a_transactional_producer_are_locked_out(
    make: Make,
) -> None:
    one = make()
    settings = {"bootstrap.servers": one.broker.bootstrap, "transactional.id": one.topic}
    former = Producer(settings)
    former.init_transactions(30)
    former.begin_transaction()
    with one.noting(settings, settings=settings, first_time=NOON) as noting:
        former.produce(one.topic, b"1")
        former.commit_transaction(30)
        assert one.shop.watermark is None
        noting.init_transactions(30)
        wait_until(one.stands(NOON))
        assert one.shop.mark == (NOON, {"0": 2})  # a record and its marker


@pytest.mark.parametrize("flushes", ["yes", "no"])
def test_the_first_note_after_a_crash_covers_what_the_former_process_wrote(
    make: Make, flushes: str
) -> None:
    one = make(2)
    arguments = one.broker.bootstrap, one.url, one.shop.name, one.topic, flushes
    crashing = subprocess.Popen(
        [sys.executable, "-c", CRASHES, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    )
    with crashing:
        assert crashing.stdout is not None
        assert crashing.stdout.readline() == b"ready\n"
        crashing.kill()
    settings = {"bootstrap.servers": one.broker.bootstrap}
    with one.noting(settings) as noting:
        noting.note_time(NOON + MINUTE)
        wait_until(one.stands(NOON + MINUTE))
        at, cut = one.shop.mark
        assert flushes == "no" or sum(cut.values()) == 100
        behind = [time for time, place, offset in _records(one) if offset >= cut[str(place)]]
        assert [time for time in behind if time < at] == []


def test_the_producer_of_the_guide_does_what_it_says(make: Make) -> None:
    one = make()
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    (block,) = (found for found in blocks if "import NotingProducer" in found)
    for told, meant in (
        ("127.0.0.1:9092", one.broker.bootstrap),
        ("http://127.0.0.1:8470", one.url),
        ("shop/orders", one.shop.name),
        ('"orders"', f'"{one.topic}"'),
        ("range(600)", "range(150)"),
        ("sleep(1)", "sleep(0.002)"),  # each time is another one
    ):
        assert told in block
        block = block.replace(told, meant)
    names: dict[str, Any] = {}
    exec(block, names)
    assert one.shop.mark == (names["now"], {"0": 150})


def _records(one: _Shop) -> Iterator[tuple[int, int, int]]:
    """Read the timestamp, partition and offset of all records of a topic."""
    settings = {"bootstrap.servers": one.broker.bootstrap}
    ends = Topic(settings, one.topic).ends()
    consumer = Consumer({**settings, "group.id": "all", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(one.topic, number, 0) for number in ends])
    for _ in range(sum(ends.values())):
        message = consumer.poll(30)
        assert message is not None
        yield message.timestamp()[1], message.partition() or 0, message.offset() or 0
    consumer.close()


def test_a_topic_that_has_grown_raises_what_the_stream_may_have(make: Make) -> None:
    one = make(3, segments=1)
    with one.noting() as noting:
        noting.produce(one.topic, b"1", partition=2)
        noting.note_time(NOON)
        wait_until(one.stands(NOON))
    with StreamClient(one.url, one.shop.name) as client:
        assert client.describe().config.max_segments == 3
    assert one.shop.mark == (NOON, {"0": 0, "1": 0, "2": 1})


def test_a_strategy_notes_by_itself(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    one = make()
    strategy = BoundedOutOfOrderness(timedelta(seconds=10))
    soon = timedelta(milliseconds=20)
    with one.noting(strategy=strategy, note_interval=soon) as noting:
        noting.produce(one.topic, b"1", timestamp=NOON)
        wait_until(one.stands(NOON - 10_000))
        noting.produce(one.topic, b"2", event_time=NOON + MINUTE)
        wait_until(one.stands(NOON + 50_000))
        noting.produce(one.topic, b"3", event_time=NOON)
        assert noting.late_events == 1
        noting.produce(one.topic, b"4", event_time=IN_2100)
    assert [record.getMessage().split(" is ")[0] for record in caplog.records] == [
        f"writer '{noting.name}' of {one.shop.name}: event time {NOON}",
        f"writer '{noting.name}' of {one.shop.name}: event time {IN_2100}",
    ]


def test_a_record_below_a_noted_time_is_logged_as_late(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    one = make()
    with one.noting() as noting:
        noting.note_time(NOON)
        noting.produce(one.topic, b"1", timestamp=NOON - 1)
        noting.produce(one.topic, b"2", event_time=NOON - 2)
        assert noting.late_events == 2
    (line,) = caplog.messages
    assert f"event time {NOON - 1} is below {NOON}" in line


def test_who_is_fenced_is_told(make: Make) -> None:
    one = make()
    former, latter = one.noting(), one.noting()
    former.open()
    latter.open()
    former.note_time(NOON)
    with pytest.raises(WriterFencedError):
        former.close()
    latter.close()


def test_what_passes_to_other_topics_is_not_waited_for(make: Make) -> None:
    one, other = make(), make()
    with one.noting() as noting:
        noting.produce(other.topic, b"1")
        noting.note_time(NOON)
        wait_until(one.stands(NOON))
        assert one.shop.mark == (NOON, {"0": 0})
        assert noting.flush(30) == 0


def test_a_broker_and_a_service_that_go_away_under_load_and_return_lose_no_note(
    server: ServerProcess, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with Api(server.url, "shop/outage") as api:
        create_topic(broker.bootstrap, "outage", partitions=2)
        api.create(segments=2)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        with NotingProducer(producer, server.url, "shop/outage", "api-1") as noting:

            def produce(hour: int) -> None:
                for number in range(500):
                    noting.produce("outage", b"x", partition=number % 2)
                noting.note_time(NOON + hour)

            produce(1)
            broker.stop()
            produce(2)
            broker.start()
            produce(3)
            wait_until(lambda: api.get("watermark")["watermark"] == NOON + 3)
            server.kill()
            produce(4)
            assert noting.flush(60) == 0
            wait_until(lambda: f"retrying {server.url} until it answers" in caplog.text)
            server.start()
            produce(5)
            wait_until(lambda: api.get("watermark")["watermark"] == NOON + 5)
            mark = api.get("watermark")["mark"]
            settings = {"bootstrap.servers": broker.bootstrap}
            ends = Topic(settings, "outage").high_watermarks()
            assert mark["cut"] == {str(number): end for number, end in ends.items()}
