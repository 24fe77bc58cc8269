"""Estimating time for producers that you cannot change, as typed, on a real broker and service."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from tests.broker import Broker
from tests.conftest import NewServer
from tests.kafka import create_topic, produce
from tests.patience import PATIENCE_S, wait_until
from tests.server import ServerProcess
from tests.service.api import Api
from tests.service.operator import Operator

pytestmark = pytest.mark.only_on("sqlite", "the verb knows the service only")

NOON = 1_704_110_400_000
BACKFILL = ("--from", "beginning", "--strategy", "bounded:1s", "--until", "end")
SOON = ("--kafka", "session.timeout.ms=6000")
"""As soon as brokers let a dead consumer go."""


class Observed:
    """A topic with a stream of its own name, and the verb."""

    def __init__(self, server: ServerProcess, broker: Broker, partitions: int) -> None:
        self.topic = f"topic-{uuid4().hex}"
        self.bootstrap = broker.bootstrap
        self.operator = Operator(server.url)
        self.api = Api(server.url, f"shop/{self.topic}")
        # Noon was long ago.
        create_topic(broker.bootstrap, self.topic, partitions=partitions, retention_ms=-1)
        self.api.create(segments=partitions)

    def words(self, *words: str) -> tuple[str, ...]:
        stream = ("observe", "kafka", self.api.name, "--bootstrap", self.bootstrap, "--json")
        return (*stream, *words)

    def produce(self, *records: dict[str, Any]) -> None:
        produce(self.bootstrap, self.topic, records)

    @contextmanager
    def observing(self, *words: str) -> Iterator["subprocess.Popen[str]"]:
        with self.operator.start(*self.words(*words)) as process:
            yield process

    def run(self, *words: str, status: int = 0) -> tuple[Any, str]:
        """Run to the end; give its last progress, and what it warned of."""
        with self.observing(*words) as process:
            said, warned = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == status, warned
        return (json.loads(said.splitlines()[-1]) if said else None), warned

    def writers(self) -> dict[str, Any]:
        return {one["writer"]: one for one in self.api.get("writers")["writers"]}

    def states(self) -> dict[str, str]:
        return {name: one["state"] for name, one in self.writers().items()}

    def times(self) -> dict[str, int | None]:
        return {name: one["time"] for name, one in self.writers().items()}

    @property
    def watermark(self) -> int | None:
        found: int | None = self.api.get("watermark")["watermark"]
        return found


@pytest.fixture
def two(shared_server: ServerProcess, broker: Broker) -> Iterator[Observed]:
    """A topic of two partitions."""
    observed = Observed(shared_server, broker, 2)
    yield observed
    observed.api.client.close()


@pytest.fixture
def one(shared_server: ServerProcess, broker: Broker) -> Iterator[Observed]:
    """A topic of one partition."""
    observed = Observed(shared_server, broker, 1)
    yield observed
    observed.api.client.close()


def _at(partition: int, timestamp: int, **more: Any) -> dict[str, Any]:
    return {"partition": partition, "timestamp": timestamp, "value": b"v", **more}


def test_partitions_note_the_least_guess_at_their_own_positions(two: Observed) -> None:
    two.produce(_at(0, NOON), _at(0, NOON + 9_000), _at(1, NOON + 5_000))
    told, warned = two.run(*BACKFILL)
    assert two.times() == {"0": NOON + 4_000, "1": NOON + 4_000}
    assert {name: one["position"] for name, one in two.writers().items()} == {
        "0": {"0": 2},
        "1": {"1": 1},
    }
    assert (two.watermark, told["watermark"]) == (NOON + 4_000, NOON + 4_000)
    assert (told["events"], told["behind"], told["sources"]) == (3, 0, 2)
    assert "this is an estimate" in warned
    assert "the writers stay members" in warned


def test_a_partition_in_which_nothing_is_holds_nobody_at_the_end(two: Observed) -> None:
    two.produce(_at(0, NOON), _at(0, NOON + 9_000))
    two.run(*BACKFILL)
    assert (two.watermark, two.states()) == (NOON + 8_000, {"0": "active", "1": "left"})


def test_a_header_names_writers_and_tells_their_time(two: Observed) -> None:
    def at(partition: int, name: str, when: str) -> dict[str, Any]:
        headers = {"from": name.encode(), "at": when.encode()}
        return {"partition": partition, "value": b"v", "headers": headers}

    two.produce(
        at(0, "api", str(NOON + 5_000)),
        at(1, "api", "2024-01-01T12:00:07Z"),
        at(1, "Büro", "2024-01-01T12:00:03Z"),
        at(1, "Büro", "noon"),
        _at(0, NOON),
    )
    told, warned = two.run("--by", "header:from", "--event-time", "header:at", *BACKFILL)
    # Who has no time yet holds the watermark, and all can see who that is.
    assert two.times() == {
        **dict.fromkeys(["api.0", "api.1", "x--B_c3_bcro.1"], NOON + 2_000),
        "x--_none.0": None,
    }
    assert told["held_by"] == {"x--_none.0": None}
    assert (told["unreadable"], told["watermark"]) == (2, None)
    assert "no such header" in told["unreadable_at"] or "noon" in told["unreadable_at"]
    assert warned.count("record 0:1 has no such header or key (--by)") == 1
    assert "--except x--_none leaves them alone" in warned


def test_keys_note_what_their_json_tells(one: Observed) -> None:
    def at(key: str, seconds: int) -> dict[str, Any]:
        value = json.dumps({"meta": {"at": NOON + seconds * 1_000}})
        return {"key": key, "value": value}

    one.produce(at("a", 9), at("b", 5), at("itself", 1), at("a", 20))
    words = ("--by", "key", "--event-time", "json:/meta/at", "--except", "itself")
    told, _ = one.run(*words, *BACKFILL)
    assert one.times() == {"a.0": NOON + 4_000, "b.0": NOON + 4_000}
    assert {name: it["position"] for name, it in one.writers().items()} == {
        "a.0": {"0": 4},
        "b.0": {"0": 2},
    }
    assert told["late"] == 0


def test_a_start_reads_on_from_what_is_registered(one: Observed) -> None:
    by = ("--by", "key")
    one.produce(_at(0, NOON, key="a"), _at(0, NOON + 1_000, key="b"))
    one.run(*by, *BACKFILL)
    one.produce(_at(0, NOON + 2_000, key="b"), _at(0, NOON + 3_000, key="a"))
    told, _ = one.run(*by, *BACKFILL)
    assert told["events"] == 2
    assert one.watermark == NOON + 1_000
    assert {it["incarnation"] for it in one.writers().values()} == {2}


def test_the_end_is_found_behind_the_mark_of_a_transaction(one: Observed) -> None:
    producer = Producer({"bootstrap.servers": one.bootstrap, "transactional.id": one.topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(one.topic, b"v", timestamp=NOON)
    producer.commit_transaction(PATIENCE_S)
    told, _ = one.run(*BACKFILL)
    assert (told["behind"], told["watermark"]) == (0, NOON - 1_000)


def test_the_clock_less_a_lag_goes_on_without_events(one: Observed) -> None:
    with one.observing("--strategy", "lag:1m", "--idle", "never", *SOON) as process:
        wait_until(lambda: "0" in one.states())
        began_ms = time.time_ns() // 1_000_000
        one.produce({"value": b"v"})
        wait_until(lambda: (one.watermark or 0) > began_ms - 60_000 + 2_000)
        now_ms = time.time_ns() // 1_000_000
        assert (one.watermark or 0) <= now_ms - 60_000
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE_S) == 128 + signal.SIGTERM


def test_a_backlog_that_was_loaded_at_once_is_noted_by_its_progress(
    shared_server: ServerProcess, broker: Broker
) -> None:
    four = Observed(shared_server, broker, 4)
    rows, step_ms = 24_000, 25_200  # a week
    # Without a timestamp, a record has that of the load.
    records = [
        {
            "partition": row % 4,
            "key": "ab"[row % 8 // 4],
            "value": b'{"at":%d}' % (NOON + row * step_ms),
        }
        for row in range(rows)
    ]
    four.produce(*records)
    told, _ = four.run("--by", "key", "--event-time", "json:/at", *BACKFILL)
    assert (told["events"], told["late"], told["held_by"]) == (rows, 0, {})
    assert len(four.api.get("marks", limit=1_000)["marks"]) > 100
    four.api.client.close()


def test_a_source_with_a_broken_clock_is_named_and_left_out(one: Observed) -> None:
    def go_on() -> None:
        now_ms = time.time_ns() // 1_000_000
        told = {"api": now_ms, "broken": now_ms % 1_000_000, "fast": now_ms + 2**41}
        one.produce(*[{"key": key, "headers": {"at": b"%d" % at}} for key, at in told.items()])

    by = ("--by", "key", "--event-time", "header:at", "--idle", "never")
    go_on()
    began_ms = time.time_ns() // 1_000_000
    words = [word for word in one.words(*by, *BACKFILL) if word != "--json"]
    with one.operator.start(*words) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert "held by 'fast.0', without an event time that can be believed (and 1 more)" in said
    assert (one.watermark or 0) < 1_000_000
    assert {"broken.0", "fast.0"} & {
        holder["writer"] for holder in one.api.get("watermark")["explanation"]["holders"]
    }

    with one.observing(*by, "--strategy", "bounded:1s", "--hold-limit", "2s") as process:
        wait_until(lambda: go_on() or (one.watermark or 0) > began_ms)  # type: ignore[func-returns-value]
        process.send_signal(signal.SIGINT)
        last, warned = process.communicate(timeout=PATIENCE_S)
    assert one.states() == {"api.0": "active", "broken.0": "left", "fast.0": "left"}
    assert "writer 'broken.0' has held the others for the hold limit, 2" in warned
    assert warned.count(f"writer 'fast.0' of {one.api.name}: event time ") == 1
    told = json.loads(last.splitlines()[-1])
    assert (told["held_by"], told["left_out"].keys()) == ({}, {"broken.0", "fast.0"})
    assert told["left_out"]["broken.0"] > began_ms - 1_000_000


def test_a_silent_writer_leaves_and_its_next_event_reports_again(two: Observed) -> None:
    two.produce(_at(0, NOON), _at(1, NOON))
    with two.observing("--from", "beginning", "--idle", "2s") as process:
        wait_until(lambda: two.states() == {"0": "left", "1": "left"})
        two.produce(_at(1, NOON + 3_600_000))
        wait_until(lambda: two.times()["1"] == NOON + 3_300_000)
        assert two.watermark == NOON + 3_300_000
        assert two.writers()["1"]["incarnation"] == 2
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    told = json.loads(said.splitlines()[-1])
    assert (told["sources"], told["events"]) == (2, 3)


def test_the_other_observer_takes_over_from_one_that_is_killed(two: Observed) -> None:
    words = ("--from", "beginning", "--strategy", "bounded:1s", "--idle", "never", *SOON)
    two.produce(_at(0, NOON), _at(1, NOON))
    with two.observing(*words) as first:
        wait_until(lambda: two.watermark == NOON - 1_000)
        with two.observing(*words) as second:
            # One of the two was registered again, by its new owner.
            wait_until(lambda: sum(it["incarnation"] for it in two.writers().values()) == 3)
            two.produce(_at(0, NOON + 5_000), _at(1, NOON + 6_000))
            wait_until(lambda: two.times() == {"0": NOON + 4_000, "1": NOON + 5_000})
            first.kill()
            two.produce(_at(0, NOON + 20_000), _at(1, NOON + 20_000))
            wait_until(lambda: two.watermark == NOON + 19_000)
            assert sum(it["incarnation"] for it in two.writers().values()) == 4
            assert second.poll() is None


def test_observing_goes_on_when_the_service_does(server: ServerProcess, broker: Broker) -> None:
    observed = Observed(server, broker, 1)
    observed.produce(_at(0, NOON, key="a"))
    words = ("--by", "key", "--from", "beginning", "--strategy", "bounded:1s")
    with observed.observing(*words) as process:
        wait_until(lambda: observed.watermark == NOON - 1_000)
        server.kill()
        observed.produce(_at(0, NOON + 5_000, key="a"), _at(0, NOON + 7_000, key="b"))
        assert process.stderr is not None
        begun = next(line for line in process.stderr if "retrying http" in line)
        assert "until it answers" in begun
        server.start()
        wait_until(lambda: observed.watermark == NOON + 4_000)
        assert observed.states() == {"a.0": "active", "b.0": "active"}
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 130
    observed.api.client.close()


def test_an_observer_with_nothing_to_say_tells_the_watermark_of_others(one: Observed) -> None:
    one.api.note("api-1", NOON, 0)
    told, _ = one.run("--by", "key", *BACKFILL)
    assert (told["writers"], told["watermark"]) == (0, NOON)


def test_a_writer_that_another_process_registers_is_given_up(one: Observed) -> None:
    words = ("--by", "key", "--from", "beginning", "--strategy", "bounded:1s", *SOON)
    one.produce(_at(0, NOON, key="a"), _at(0, NOON, key="b"))
    with one.observing(*words) as process:
        wait_until(lambda: one.watermark == NOON - 1_000)
        one.api.post("writers/a.0/register")
        one.produce(_at(0, NOON + 5_000, key="a"), _at(0, NOON + 9_000, key="b"))
        wait_until(lambda: one.times()["b.0"] == NOON + 8_000)
        process.send_signal(signal.SIGINT)
        _, warned = process.communicate(timeout=PATIENCE_S)
    assert "another process speaks for writer 'a.0' now" in warned
    assert one.writers()["a.0"]["incarnation"] == 2
    assert one.watermark == NOON - 1_000


def test_a_topic_with_more_partitions_gets_room(
    shared_server: ServerProcess, broker: Broker
) -> None:
    grown = Observed(shared_server, broker, 1)
    create_topic(broker.bootstrap, f"{grown.topic}-grown", partitions=3, retention_ms=-1)
    records = [_at(number, NOON + number) for number in range(3)]
    produce(broker.bootstrap, f"{grown.topic}-grown", records)
    told, warned = grown.run("--topic", f"{grown.topic}-grown", *BACKFILL)
    assert "max_segments of " in warned
    assert told["watermark"] == NOON - 1_000
    grown.api.client.close()


def test_another_topic_than_the_one_before_is_noticed(one: Observed, broker: Broker) -> None:
    one.produce(*[_at(0, NOON)] * 3)
    one.run(*BACKFILL)
    create_topic(broker.bootstrap, f"{one.topic}-other")
    _, warned = one.run("--topic", f"{one.topic}-other", *BACKFILL, status=1)
    assert "partition 0 of" in warned
    assert "ends at 0, but" in warned


def test_a_stream_that_is_not_there_is_to_be_created_for_the_topic(two: Observed) -> None:
    two.operator.says("delete", two.api.name, "--yes")
    _, warned = two.run(status=1)
    assert f"tidegauge create {two.api.name} --log external --segments 2" in warned


def test_more_writers_than_a_stream_may_have_is_an_error_that_names_it(
    new_server: NewServer, broker: Broker
) -> None:
    with new_server(max_writers_per_stream=2) as small:
        observed = Observed(small, broker, 1)
        observed.produce(*[_at(0, NOON, key=key) for key in "abc"])
        _, warned = observed.run("--by", "key", *BACKFILL, status=1)
        observed.api.client.close()
    assert "has 2 writers, which is the limit (max_writers_per_stream)" in warned


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--kafka", "session.timeout=1", 'No such configuration property: "session.timeou'),
        ("--topic", "nowhere", "has no topic 'nowhere'"),
    ],
)
def test_what_the_broker_does_not_know_is_named(
    one: Observed, option: str, value: str, problem: str
) -> None:
    _, warned = one.run(option, value, status=1)
    assert problem in warned
