"""Producers to a real broker that note time over a real server, and what goes wrong with them."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from reader_client import StreamClient
from tests.broker import Broker
from tests.kafka import create_topic, quiet
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.api import MINUTE, NOON, Api
from tidegauge.client.kafka import Topic
from tidegauge.errors import WriterFencedError
from writer_client.kafka import (
    DeliveryFailedError,
    LogAppendTimeError,
    NoAcknowledgementsError,
    NotingProducer,
)
from writer_client.strategies import BoundedOutOfOrderness

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "tutorials" / "kafka.md"
CRASHES = """\
import sys
from confluent_kafka import Producer
from writer_client.kafka import NotingProducer

bootstrap, url, stream, topic = sys.argv[1:]
noting = NotingProducer(Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0}), url, stream, "api-1")
noting.open()
for number in range(200):
    noting.produce(topic, b"%d" % number)
    if number == 99:
        noting.flush()
print("ready", flush=True)
sys.stdin.read()
"""

_NUMBERS = count(1)


class Orders(Api):
    """A stream, its topic, and producers to it."""

    def __init__(
        self,
        url: str,
        broker: Broker,
        partitions: int,
        *,
        stamps: str = "CreateTime",
        **settings: object,
    ) -> None:
        super().__init__(url, f"shop/noted-{next(_NUMBERS)}")
        self.settings = {"bootstrap.servers": broker.bootstrap}
        self.create(**{"segments": partitions, **settings})
        # Timestamps are those of the stories, which are years old.
        config = {"retention_ms": -1, "message_timestamp_type": stamps}
        create_topic(broker.bootstrap, self.topic, partitions=partitions, **config)

    def noting(self, more: dict[str, Any] | None = None, **options: Any) -> NotingProducer:
        """Make a producer that notes."""
        producer = Producer(quiet(self.settings) | (more or {}))
        return NotingProducer(producer, self.url, self.name, "api-1", **options)

    def reaches(self, watermark: int) -> None:
        """Wait until the watermark stands there."""
        wait_until(lambda: self.watermark == watermark)


def _ends(shop: Orders) -> dict[str, int]:
    """Ask the broker where each partition ends."""
    ends = Topic(shop.settings, shop.topic).high_watermarks()
    return {str(number): end for number, end in ends.items()}


Make = Callable[..., Orders]


@pytest.fixture
def make(shared_server: ServerProcess, broker: Broker) -> Iterator[Make]:
    """Make streams with their topics."""
    with ExitStack() as streams:
        yield lambda partitions=1, **settings: streams.enter_context(
            Orders(shared_server.url, broker, partitions, **settings)
        )


def test_a_note_covers_exactly_what_was_produced_before_it(make: Make) -> None:
    shop = make(2)
    with shop.noting() as noting:
        noting.produce(shop.topic, b"1", partition=0)
        noting.produce(shop.topic, b"2", partition=1)
        noting.note_time(NOON)
        noting.produce(shop.topic, b"3", partition=1)
        shop.reaches(NOON)
        assert shop.mark == (NOON, {"0": 1, "1": 1})
        heard: list[int | None] = []
        noting.produce(
            shop.topic,
            b"4",
            partition=0,
            on_delivery=lambda _, record: heard.append(record.offset()),
        )
        noting.note_time(NOON + MINUTE)
        shop.reaches(NOON + MINUTE)
        assert shop.mark == (NOON + MINUTE, {"0": 2, "1": 2})
        assert heard == [1]


def test_close_sends_the_last_note_and_leave_lets_the_others_go_on(make: Make) -> None:
    shop = make()
    with shop.noting() as noting:
        noting.produce(shop.topic, b"1")
        noting.note_time(NOON)
    assert shop.mark == (NOON, {"0": 1})
    assert shop.states() == {"api-1": "active"}
    again = shop.noting()
    again.produce(shop.topic, b"2")
    again.note_time(NOON + MINUTE)
    again.leave()
    assert shop.mark == (NOON + MINUTE, {"0": 2})
    assert shop.states() == {"api-1": "left"}


def test_what_failed_is_told_with_what_it_was_produced_with_and_withholds_its_note(
    make: Make,
) -> None:
    shop = make()
    producer = Producer(quiet(shop.settings) | {"linger.ms": 60_000})
    with NotingProducer(producer, shop.url, shop.name, "api-1") as noting:
        for timestamp in (NOON, NOON, NOON + 1, 0, NOON):
            noting.produce(shop.topic, timestamp=timestamp)
        noting.produce(shop.topic, key=b"k", timestamp=NOON, headers={"kind": "tea"})
        noting.produce_batch(shop.topic, [{"value": "1"}])
        noting.note_time(NOON + 1)
        producer.purge()
        while len(producer):  # each failure is handed over on its own
            noting.poll(0.1)
        with pytest.raises(DeliveryFailedError) as raised:
            noting.note_time(NOON)
        noting.produce(shop.topic, b"small")
        noting.note_time(NOON)
    assert shop.mark == (NOON, {"0": 1})
    told = [(one.timestamp, one.headers, one.key) for one in raised.value.records]
    assert sorted(told, key=repr) == [
        (0, None, None),
        (0, None, None),
        (NOON, None, None),
        (NOON, None, None),
        (NOON, None, None),
        (NOON, {"kind": "tea"}, b"k"),
        (NOON + 1, None, None),
    ]


def test_a_batch_is_covered_by_the_note_behind_it(make: Make) -> None:
    shop = make(2)
    heard: list[str] = []

    def hear(said: str) -> Callable[..., None]:
        return lambda _, record: heard.append(f"{said} {record.value().decode()}")

    queue = {"queue.buffering.max.messages": 3, "linger.ms": 500}
    strategy = BoundedOutOfOrderness(timedelta(0))
    with shop.noting(queue, strategy=strategy, note_interval=timedelta(hours=1)) as noting:
        batch: list[dict[str, Any]] = [
            {"value": "1", "key": "k", "event_time": NOON},
            {"value": b"2", "partition": 1, "callback": hear("its own")},
            {"value": b"3", "event_time": NOON - MINUTE},
            {"value": b"4"},
        ]
        assert noting.produce_batch(shop.topic, batch, 0, on_delivery=hear("default")) == 3
        assert ["_error" in message for message in batch] == [False, False, False, True]
        with pytest.raises(TypeError):
            noting.produce_batch(shop.topic, [{"value": b"5"}, {"value": 6}])
        noting.flush()
        assert sorted(heard) == ["default 1", "default 3", "its own 2"]
        assert noting.produce_batch(shop.topic, [batch[3]]) == 1
    at, cut = shop.mark
    assert at >= NOON
    assert sum(cut.values()) == 4


def test_without_acknowledgements_nothing_is_noted(make: Make) -> None:
    shop = make()
    noting = shop.noting({"acks": "0"})
    noting.produce(shop.topic, b"1")
    noting.note_time(NOON)
    with pytest.raises(NoAcknowledgementsError):
        noting.close()
    assert shop.watermark is None


def test_on_a_topic_whose_broker_replaces_timestamps_only_times_inside_values_are_noted(
    make: Make,
) -> None:
    shop = make(stamps="LogAppendTime")
    with shop.noting() as noting:
        noting.produce(shop.topic, b"1", event_time=NOON)
        noting.note_time(NOON)
        shop.reaches(NOON)
        noting.produce_batch(shop.topic, [{"value": b"2", "event_time": NOON}, {"value": b"3"}])
        noting.note_time(NOON + MINUTE)
        noting.flush()
        with pytest.raises(LogAppendTimeError, match=r"message\.timestamp\.type=CreateTime"):
            noting.produce(shop.topic, b"4")


def test_notes_of_a_transaction_are_seen_once_it_is_committed_and_never_if_it_is_aborted(
    make: Make,
) -> None:
    shop = make()
    with shop.noting({"transactional.id": shop.topic}) as noting:
        noting.init_transactions(30)
        noting.begin_transaction()
        noting.produce(shop.topic, b"1")
        noting.note_time(NOON + MINUTE)
        noting.flush()
        noting.abort_transaction(30)
        noting.begin_transaction()
        noting.produce(shop.topic, b"2")
        noting.note_time(NOON)
        noting.flush()
        assert shop.watermark is None
        noting.commit_transaction(30)
        shop.reaches(NOON)
        assert shop.mark == (NOON, {"0": 3})  # an aborted record, its marker, this one


def test_an_abort_comes_once_the_broker_knows_the_transaction(make: Make) -> None:
    shop = make()
    heard: list[object] = []
    with shop.noting({"transactional.id": shop.topic, "linger.ms": 1_000}) as noting:
        noting.init_transactions(30)
        noting.begin_transaction()
        noting.produce(shop.topic, b"1", on_delivery=lambda error, _: heard.append(error))
        noting.note_time(NOON)
        noting.abort_transaction(30)
    assert heard == [None]  # what is purged instead may not be registered yet
    assert shop.watermark is None


def test_nothing_is_noted_before_former_processes_of_a_transactional_producer_are_locked_out(
    make: Make,
) -> None:
    shop = make()
    settings = shop.settings | {"transactional.id": shop.topic}
    former = Producer(quiet(settings))
    former.init_transactions(30)
    former.begin_transaction()
    with shop.noting(settings, settings=settings, first_time=NOON) as noting:
        former.produce(shop.topic, b"1")
        former.commit_transaction(30)
        assert shop.watermark is None
        noting.init_transactions(30)
        shop.reaches(NOON)
        assert shop.mark == (NOON, {"0": 2})  # a record and its marker


def test_the_first_note_after_a_crash_covers_what_the_former_process_wrote(make: Make) -> None:
    shop = make(2)
    arguments = shop.settings["bootstrap.servers"], shop.url, shop.name, shop.topic
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
    with shop.noting() as noting:
        noting.note_time(NOON)
    assert shop.mark == (NOON, _ends(shop))
    assert sum(_ends(shop).values()) >= 100


def test_the_producer_of_the_guide_does_what_it_says(make: Make) -> None:
    shop = make()
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    (block,) = (found for found in blocks if "import NotingProducer" in found)
    for told, meant in (
        ("127.0.0.1:9092", shop.settings["bootstrap.servers"]),
        ("http://127.0.0.1:8470", shop.url),
        ("shop/orders", shop.name),
        ('"orders"', f'"{shop.topic}"'),
        ("range(600)", "range(150)"),
        ("sleep(1)", "sleep(0.002)"),  # each time is another one
    ):
        assert told in block
        block = block.replace(told, meant)
    names: dict[str, Any] = {}
    exec(block, names)
    assert shop.mark == (names["now"], {"0": 150})


def test_a_topic_that_has_grown_raises_what_the_stream_may_have(make: Make) -> None:
    shop = make(3, segments=1)
    with shop.noting() as noting:
        noting.produce(shop.topic, b"1", partition=2)
        noting.note_time(NOON)
        shop.reaches(NOON)
    with StreamClient(shop.url, shop.name) as client:
        assert client.describe().config.max_segments == 3
    assert shop.mark == (NOON, {"0": 0, "1": 0, "2": 1})


def test_records_below_a_noted_time_count_as_late(make: Make) -> None:
    shop = make()
    with shop.noting() as noting:
        noting.note_time(NOON)
        noting.produce(shop.topic, b"1", timestamp=NOON - 1)
        noting.produce(shop.topic, b"2", event_time=NOON - 2)
        assert noting.late_events == 2


def test_who_is_fenced_is_told(make: Make) -> None:
    shop = make()
    former, latter = shop.noting(), shop.noting()
    former.open()
    latter.open()
    former.note_time(NOON)
    with pytest.raises(WriterFencedError):
        former.close()
    latter.close()


def test_what_passes_to_other_topics_is_not_waited_for(make: Make) -> None:
    shop, other = make(), make()
    with shop.noting() as noting:
        noting.produce(other.topic, b"1")
        noting.note_time(NOON)
        shop.reaches(NOON)
        assert shop.mark == (NOON, {"0": 0})
        assert noting.flush(30) == 0


def test_a_broker_and_a_service_that_go_away_under_load_and_return_lose_no_note(
    server: ServerProcess, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with Orders(server.url, broker, 2) as shop, shop.noting() as noting:

        def produce(hour: int) -> None:
            for number in range(500):
                noting.produce(shop.topic, b"x", partition=number % 2)
            noting.note_time(NOON + hour)

        produce(1)
        broker.stop()
        produce(2)
        broker.start()
        produce(3)
        shop.reaches(NOON + 3)
        server.kill()
        produce(4)
        assert noting.flush(60) == 0
        wait_until(lambda: f"retrying {server.url} until it answers" in caplog.text)
        server.start()
        produce(5)
        shop.reaches(NOON + 5)
        assert shop.mark == (NOON + 5, _ends(shop))
