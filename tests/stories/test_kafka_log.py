"""The log port over a topic: what can be read, what is a gap, and what is lost."""

import gc
from collections.abc import Iterator
from itertools import count

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from reader_client import StreamClient
from spark_source.errors import LogReplacedError
from spark_source.logs.kafka import KafkaLog
from spark_source.logs.kafka_reader import KafkaReader
from spark_source.options.kafka import KafkaTopic
from spark_source.options.load import read_options
from spark_source.source.partitions import SegmentPartition
from spark_source.source.rows import read_rows
from tests.broker import Broker
from tests.kafka import create_topic, delete_records, produce, quiet
from tests.patience import PATIENCE_S, wait_until
from tests.server import ServerProcess
from tests.spark.feed import DAY
from tests.spark.kafka_feed import KafkaFeed
from tidegauge.log import EventsLostError

_NUMBERS = count(1)


@pytest.fixture
def topic(shared_server: ServerProcess, broker: Broker) -> Iterator[KafkaFeed]:
    name = f"log-{next(_NUMBERS)}"
    with KafkaFeed(shared_server.url, broker.bootstrap, name) as one:
        yield one


@pytest.fixture
def log(topic: KafkaFeed) -> Iterator[KafkaLog]:
    with StreamClient(topic.url, topic.stream) as client:
        yield KafkaLog(client, _place(topic))


def test_what_an_open_transaction_holds_back_is_not_readable_yet_and_what_was_aborted_never(
    topic: KafkaFeed, log: KafkaLog
) -> None:
    topic.create()
    topic.write(1)
    aborted = topic.transactional("aborted")
    topic.write_in(aborted, 2)
    aborted.flush(PATIENCE_S)
    aborted.abort_transaction(PATIENCE_S)
    wait_until(lambda: log.extent().ends == {0: 3})
    opened = topic.transactional("open")
    topic.write_in(opened, 3)
    opened.flush(PATIENCE_S)
    topic.write(4)

    assert log.extent().ends == {0: 3}
    assert _times(topic, range(3)) == [1]  # the last two are no events
    with pytest.raises(EventsLostError, match="from offset 3, and the log ends at 3"):
        _times(topic, range(4))

    opened.commit_transaction(PATIENCE_S)
    wait_until(lambda: log.extent().ends == {0: 6})
    assert _times(topic, range(6)) == [1, 3, 4]
    assert _times(topic, range(1, 5)) == [3, 4]
    assert _times(topic, range(5, 6)) == []


def test_what_compaction_took_is_a_gap(topic: KafkaFeed) -> None:
    topic.create(cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.01)
    topic.write(1, 2, 3)
    topic.write(4, key=b"other")
    later = count(1_000, 1_000)

    def is_compacted() -> bool:
        # The time of a record rolls the segment, which is not cleaned before.
        topic.write(next(later), key=b"last")
        return _times(topic, range(4)) == [3, 4]

    wait_until(is_compacted)
    assert _times(topic, range(2)) == []
    assert _times(topic, range(1, 3)) == [3]


def test_what_retention_took_is_lost_and_the_log_says_where_it_goes_on(
    topic: KafkaFeed, log: KafkaLog
) -> None:
    topic.create(partitions=2)
    topic.write(1, 2, 3)
    delete_records(topic.settings["bootstrap.servers"], topic.topic, {0: 2})
    assert log.starts() == {0: 2, 1: 0}
    assert _times(topic, range(2, 3)) == [3]
    with pytest.raises(EventsLostError) as lost:
        _times(topic, range(3))
    assert (lost.value.wanted, lost.value.found) == (0, 2)
    with pytest.raises(EventsLostError) as beyond:
        _times(topic, range(7, 9))
    assert (beyond.value.wanted, beyond.value.found) == (7, 3)


def test_a_new_partition_is_a_root_before_any_report_names_it(
    topic: KafkaFeed, log: KafkaLog
) -> None:
    topic.create()
    before = log.extent()
    admin = AdminClient(quiet(topic.settings))
    admin.create_partitions([NewPartitions(topic.topic, 2)])[topic.topic].result(PATIENCE_S)
    found = log.extent(before, wait_ms=30_000)
    assert (sorted(found.topology.segments), found.ends) == ([0, 1], {0: 0, 1: 0})


def test_a_topic_created_again_is_another_log(topic: KafkaFeed, log: KafkaLog) -> None:
    topic.create()
    before = log.extent()
    admin = AdminClient(quiet(topic.settings))
    admin.delete_topics([topic.topic])[topic.topic].result(PATIENCE_S)
    create_topic(topic.settings["bootstrap.servers"], topic.topic)
    assert log.extent(before, wait_ms=30_000).log_id != before.log_id


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_created_again_under_a_planned_task_fails_it(
    topic: KafkaFeed, log: KafkaLog, fails: str
) -> None:
    topic.create()
    topic.write(1, 2)
    options = read_options(topic.options | {"failOnDataLoss": fails})
    planned = SegmentPartition(options, "", 0, 0, 2, log_id=log.extent().log_id)
    assert sum(rows.num_rows for rows in read_rows(planned)) == 2
    admin = AdminClient(quiet(topic.settings))
    admin.delete_topics([topic.topic])[topic.topic].result(PATIENCE_S)
    topic.create_topic()
    topic.write(*range(3 if fails == "true" else 1))
    with pytest.raises(LogReplacedError, match="deleted and created again"):
        list(read_rows(planned))


def test_a_read_that_was_abandoned_leaves_the_next_one_its_partition(topic: KafkaFeed) -> None:
    topic.create(partitions=2)
    topic.write(1, 2)
    topic.write(3, 4, partition=1)
    reader = KafkaReader(_place(topic))
    abandoned = reader.read(0, range(2))
    next(abandoned)
    following = reader.read(1, range(3))
    first = next(following)
    del abandoned
    topic.write(5, partition=1)
    assert sum(one.batch.num_rows for one in [first, *following]) == 3


def test_reading_sets_off_no_search_for_garbage(broker: Broker, topic: KafkaFeed) -> None:
    topic.create()
    produce(broker.bootstrap, topic.topic, ({"value": b"x"} for _ in range(20_000)))
    seen: list[str] = []

    def see(phase: str, _: object) -> None:
        seen.append(phase)

    runs = KafkaReader(_place(topic)).read(0, range(20_000))
    gc.callbacks.append(see)
    try:
        assert sum(run.batch.num_rows for run in runs) == 20_000
    finally:
        gc.callbacks.remove(see)
    # Each page makes tens of thousands of objects; a search begins with every 700.
    assert len(seen) < 20


def test_a_time_starts_at_the_first_record_of_each_partition_that_reaches_it(
    topic: KafkaFeed, log: KafkaLog
) -> None:
    topic.create(partitions=3)
    topic.write(1, 9, 4, 12)
    topic.write(3, 2, partition=1)
    assert log.start_of(DAY + 5) == {0: 1, 1: 2, 2: 0}
    assert log.start_of(DAY + 10) == {0: 3, 1: 2, 2: 0}
    assert log.start_of(-1) == {0: 0, 1: 0, 2: 0}


def _place(topic: KafkaFeed) -> KafkaTopic:
    return KafkaTopic(topic.topic, tuple(topic.settings.items()))


def _times(topic: KafkaFeed, offsets: range) -> list[int]:
    runs = KafkaReader(_place(topic)).read(0, offsets)
    return [time.as_py() - DAY for run in runs for time in run.batch.column("event_time")]
