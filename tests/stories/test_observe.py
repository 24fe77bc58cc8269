"""Noting time for producers that you cannot change, as typed, on a real broker and service."""

import json
import signal
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.broker import Broker
from tests.changefeeds import COCKROACHDB, TICDC, Changefeed
from tests.conftest import NewServer
from tests.kafka import create_topic, produce, quiet
from tests.patience import PATIENCE_S, wait_until
from tests.server import ServerProcess
from tests.service.api import NOON
from tests.service.observed import Observed, record

pytestmark = pytest.mark.only_on("sqlite", "the verb knows the service only")

OFTEN = ("--kafka", "topic.metadata.refresh.interval.ms=500")
"""A partition that is added is seen soon."""
BACKFILL = ("--from", "beginning", "--strategy", "bounded:1s", "--until", "end")


def test_partitions_note_the_least_guess_at_their_own_positions(
    observed_of_two: Observed,
) -> None:
    observed_of_two.produce(record(0, NOON), record(0, NOON + 9_000), record(1, NOON + 5_000))
    told, warned = observed_of_two.run(*BACKFILL)
    assert observed_of_two.times() == {"0": NOON + 4_000, "1": NOON + 4_000}
    assert {name: one["position"] for name, one in observed_of_two.noted().items()} == {
        "0": {"0": 2},
        "1": {"1": 1},
    }
    assert (observed_of_two.watermark, told["watermark"]) == (NOON + 4_000, NOON + 4_000)
    assert (told["events"], told["behind"], told["sources"]) == (3, 0, 2)
    assert "this is an estimate" in warned
    assert "the writers stay members" in warned


def test_a_header_names_writers_of_which_some_are_left_alone(observed: Observed) -> None:
    def at(name: str, when: str) -> dict[str, Any]:
        return {"value": b"v", "headers": {"from": name.encode(), "at": when.encode()}}

    observed.produce(
        at("api", "2024-01-01T12:00:05Z"),
        at("Büro", str(NOON + 3_000)),
        at("Büro", "noon"),
        at("itself", str(NOON)),
        record(0, NOON),
    )
    words = ("--by", "header:from", "--event-time", "header:at", "--except", "itself")
    told, warned = observed.run(*words, *BACKFILL)
    # Who has no time yet holds the watermark, and all can see who that is.
    times = {"api.0": NOON + 2_000, "x--B_c3_bcro.0": NOON + 2_000, "x--_none.0": None}
    assert observed.times() == times
    assert (told["held_by"], told["left_out"]) == ({"x--_none.0": None}, {})
    assert (told["unreadable"], told["late"], told["watermark"]) == (2, 0, None)
    assert told["unreadable_at"].startswith("0:2: 'noon' is not an event time")
    assert warned.count("record 0:4 has no such header or key (--by)") == 1
    assert "--except x--_none leaves them alone" in warned


def test_what_is_written_behind_an_open_transaction_is_waited_for_and_nobody_is_silent_there(
    observed_of_two: Observed,
) -> None:
    observed = observed_of_two
    producer = Producer(quiet(observed.bootstrap) | {"transactional.id": observed.topic})
    producer.init_transactions(PATIENCE_S)
    observed.produce(record(0, NOON), record(1, NOON + 9_000))
    producer.begin_transaction()
    producer.produce(observed.topic, b"v", partition=0, timestamp=NOON + 3_000)
    producer.flush(PATIENCE_S)
    observed.produce(record(0, NOON + 2_000))
    with observed.observing(*BACKFILL, "--idle", "2s") as process:
        wait_until(lambda: observed.states().get("1") == "left")
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert (told["behind"], told["open_transactions"]) == (2, {"0": 1})
        assert (observed.states()["0"], observed.watermark) == ("active", NOON - 1_000)
        producer.commit_transaction(PATIENCE_S)
        said, _ = process.communicate(timeout=PATIENCE_S)
    told = json.loads(said.splitlines()[-1])
    assert (told["late"], told["open_transactions"]) == (0, {})
    assert (
        told["behind"] <= 1
    )  # the marker of the commit, which came after the end that it waits for
    assert observed.watermark == NOON + 2_000


def test_a_topic_with_more_partitions_gets_room(
    shared_server: ServerProcess, broker: Broker
) -> None:
    grown = Observed(shared_server, broker, 1)
    create_topic(broker.bootstrap, f"{grown.topic}-grown", partitions=3, retention_ms=-1)
    records = [record(number, NOON + number) for number in range(3)]
    produce(broker.bootstrap, f"{grown.topic}-grown", records)
    told, warned = grown.run("--topic", f"{grown.topic}-grown", *BACKFILL)
    assert "max_segments of " in warned
    assert told["watermark"] == NOON - 1_000
    grown.close()


def test_another_topic_than_the_one_before_is_noticed(
    observed: Observed, broker: Broker
) -> None:
    observed.produce(*[record(0, NOON)] * 3)
    observed.run(*BACKFILL)
    create_topic(broker.bootstrap, f"{observed.topic}-other")
    _, warned = observed.run("--topic", f"{observed.topic}-other", *BACKFILL, status=1)
    assert "partition 0 of" in warned
    assert "ends at 0, but" in warned


def test_a_stream_that_is_not_there_is_to_be_created_for_the_topic(
    observed_of_two: Observed,
) -> None:
    observed_of_two.operator.says("delete", observed_of_two.name, "--yes")
    _, warned = observed_of_two.run(status=1)
    assert f"tidegauge create {observed_of_two.name} --log external --segments 2" in warned


def test_more_writers_than_a_stream_may_have_is_an_error_that_names_it(
    new_server: NewServer, broker: Broker
) -> None:
    with new_server(max_writers_per_stream=2) as small:
        observed = Observed(small, broker, 1)
        observed.produce(*[record(0, NOON, key=key) for key in "abc"])
        _, warned = observed.run("--by", "key", *BACKFILL, status=1)
        observed.close()
    assert "has 2 writers, which is the limit (max_writers_per_stream)" in warned


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--kafka", "session.timeout=1", 'No such configuration property: "session.timeou'),
        ("--topic", "nowhere", "has no topic 'nowhere'"),
    ],
)
def test_what_the_broker_does_not_know_is_named(
    observed: Observed, option: str, value: str, problem: str
) -> None:
    _, warned = observed.run(option, value, status=1)
    assert problem in warned


@pytest.mark.parametrize("feed", [COCKROACHDB, TICDC], ids=lambda feed: feed.name)
def test_each_partition_notes_what_its_feed_promises_there(
    observed_of_two: Observed, feed: Changefeed
) -> None:
    observed = observed_of_two
    observed.produce(
        feed.row(0, NOON),
        feed.promise(0, NOON),
        feed.row(0, NOON + 5_000),
        feed.promise(0, NOON + 5_000),
        feed.row(0, NOON + 9_000),
        {"partition": 0, "key": b"[1]", "value": None},
        feed.row(1, NOON + 2_000),
        feed.promise(1, NOON + 3_000),
        feed.row(1, NOON + 2_999),
        feed.promise(1, NOON + 1_000),
    )
    words = ("--promises", feed.name, "--event-time", feed.event_time)
    told, warned = observed.run(*words, "--from", "beginning", "--until", "end")
    noted = {name: (one["time"], one["position"]) for name, one in observed.noted().items()}
    assert noted == {"0": (NOON + 5_000, {"0": 4}), "1": (NOON + 3_000, {"1": 2})}
    assert observed.marks() == [(NOON, {0: 2, 1: 2}), (NOON + 3_000, {0: 4, 1: 2})]
    assert (told["events"], told["promises"], told["promises_repeated"]) == (6, 4, 1)
    assert (told["late"], told["unreadable"], told["held_by"]) == (1, 1, {})
    below = (
        f"event time {NOON + 2_999} is below {NOON + 3_000}, which its partition had promised"
    )
    assert warned.count(f"writer '1' of {observed.name}: {below}") == 1
    assert "estimate" not in warned

    # It reads on behind the promises that are noted, and compares what it reads again with them.
    observed.produce(feed.promise(1, NOON + 9_000), feed.promise(0, NOON + 9_000))
    with observed.operator.start(
        *[word for word in observed.words(*words) if word != "--json"]
    ) as process:
        wait_until(lambda: observed.watermark == NOON + 9_000)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE_S)
    last = said.splitlines()[-1]
    assert f"{observed.name}: 2 writers, 3 events" in last
    assert "3 promises, 1 below one before; 1 below a promise" in last
    assert "estimate" not in last


def test_a_partition_without_a_promise_holds_the_others_and_one_that_is_added_is_waited_for(
    observed_of_two: Observed,
) -> None:
    observed, feed = observed_of_two, COCKROACHDB
    observed.produce(feed.row(0, NOON), feed.promise(0, NOON), feed.row(1, NOON))
    words = ("--promises", feed.name, "--from", "beginning", *OFTEN)
    with observed.observing(*words) as process:
        wait_until(lambda: observed.times() == {"0": NOON, "1": None})
        observed.produce(feed.promise(1, NOON))
        wait_until(lambda: observed.watermark == NOON)
        admin = AdminClient(quiet(observed.bootstrap))
        admin.create_partitions([NewPartitions(observed.topic, 3)])[observed.topic].result()
        observed.produce(feed.row(2, NOON + 500))
        observed.produce(feed.promise(0, NOON + 1_000), feed.promise(1, NOON + 1_000))
        wait_until(lambda: observed.states().get("2") == "joining")
        wait_until(lambda: observed.times()["1"] == NOON + 1_000)
        assert observed.watermark == NOON
        observed.produce(feed.promise(2, NOON + 2_000))
        wait_until(lambda: observed.marks()[-1] == (NOON + 1_000, {0: 3, 1: 3, 2: 2}))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 130


def test_a_promise_that_cannot_be_read_ends_it_with_its_place(observed: Observed) -> None:
    observed.produce(record(0, NOON), record(0, NOON, value=b'{"done": "soon"}'))
    words = ("--promises", "json:/done:us", "--from", "beginning")
    _, warned = observed.run(*words, status=1)
    place = f"the promise at offset 1 of partition 0 of {observed.topic} cannot be read"
    assert f"{place}: 'soon' is not a time in us" in warned


def test_a_promise_in_another_unit_ends_it_instead_of_the_stream(observed: Observed) -> None:
    observed.produce(record(0, NOON, value=b'{"done": %d}' % (NOON * 1_000)))
    words = ("--promises", "json:/done", "--from", "beginning")
    _, warned = observed.run(*words, status=1)
    assert "max_future_skew_ms" in warned
    assert observed.watermark is None
