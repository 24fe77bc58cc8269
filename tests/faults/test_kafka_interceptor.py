"""Producers in Java that note time by the interceptor, and what goes wrong with them, over a real broker."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewPartitions

from tests.broker import Broker
from tests.conftest import NewServer
from tests.effort import Effort
from tests.interceptor import HAS_JAVA, Edit, Noted, Program
from tests.kafka import create_topic, delete_topic, quiet
from tests.kafka_jars import client_jars, producer_jars
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.server import ServerProcess, free_port
from tests.service.controllers import LEASE_MS, answers, controller, controllers, is_ready
from tests.tokens import Tokens

pytestmark = [
    pytest.mark.only_on("sqlite", "clients know the service only"),
    pytest.mark.skipif(not HAS_JAVA, reason="there is no JDK"),
]

# Of producers whose records shall fail soon.
SOON: dict[str, Any] = {
    "request_timeout_ms": 1_000,
    "delivery_timeout_ms": 2_000,
    "max_block_ms": 2_000,
    "linger_ms": 0,
}

Make = Callable[..., Noted]


@pytest.fixture
def make(shared_server: ServerProcess, broker: Broker) -> Iterator[Make]:
    """Make streams with their topics."""
    with ExitStack() as streams:
        yield lambda *given, **more: streams.enter_context(
            Noted(shared_server.url, broker, *given, **more)
        )


def reaches_clock(noted: Noted) -> None:
    """Wait until the watermark is where the clock was when this began."""
    now = now_ms()
    wait_until(lambda: (noted.watermark or 0) >= now)


@contextmanager
def exact(noted: Noted, **settings: Any) -> Iterator[Program]:
    """Drive a producer until the watermark reaches the clock; no record is late then."""
    with noted.driving("api-1", **settings) as drive:
        yield drive
        reaches_clock(noted)
        drive.end()
    assert noted.late() == []


def now_ms() -> int:
    return int(time.time() * 1_000)


# What producers do.


@pytest.mark.parametrize("jars", [client_jars, producer_jars], ids=["3.9", "4.1"])
def test_threads_of_one_producer_are_exact_and_reach_the_clock_within_two_notes(
    make: Make, jars: Callable[[], Path]
) -> None:
    noted = make()
    with noted.driving("api-1", jars=jars()) as drive:
        drive.tell("threads 500")
        assert drive.counts() == (2_000, 0)
        before, now = len(noted.all_marks()), now_ms()
        reaches_clock(noted)
        # One may have been under way.
        assert any(mark["lower"] >= now for mark in noted.all_marks()[before : before + 3])
        drive.end()
    assert noted.late() == []


def test_timestamps_of_the_application_are_exact_within_the_bound_and_late_below_it(
    make: Make,
) -> None:
    noted = make()
    with noted.driving("api-1", tidegauge_bound_ms=300) as drive:
        drive.tell("jump 1000 300")
        assert drive.counts() == (1_000, 0)
        newest = max(time or 0 for times in noted.records().values() for time in times)
        wait_until(lambda: noted.watermark == newest - 300)
        assert noted.late() == []
        drive.tell("at -5000")
        assert drive.counts() == (1_001, 0)
        wait_until(lambda: "set tidegauge.bound.ms to more" in drive.logged)
        # It is idle, and stands.
        assert noted.watermark == newest - 300
        drive.end()
    assert len(noted.late()) > 0
    assert {late.timestamp < newest - 300 for late in noted.late()} == {True}


def test_a_time_of_the_future_does_not_end_the_others(make: Make) -> None:
    noted = make()
    with noted.driving("api-1", tidegauge_bound_ms=0) as drive:
        drive.tell("at 86400000")
        drive.counts()
        drive.tell("at 0")
        drive.counts()
        drive.end()
    assert noted.late() == []
    assert noted.watermark is not None
    assert noted.watermark <= now_ms()


def test_transactions_with_aborts_and_failures_are_exact(make: Make) -> None:
    noted = make()
    with exact(noted, transactional_id="t-1", max_request_size=1_000, **SOON) as drive:
        assert drive.tell("init") == "done"
        for end in ("commit", "abort", "commit"):
            assert drive.tell("begin") == "done"
            drive.tell("send 100")
            assert drive.tell(end) == "done"
        drive.tell("begin")
        drive.tell("large 2000")
        # It is in the batch that the abort gives up.
        assert drive.tell("send 1") == "KafkaException"
        assert drive.tell("abort") == "done"
        drive.tell("begin")
        drive.tell("send 100")
        assert drive.tell("commit") == "done"
        assert "do not fit" not in drive.logged


OUTSIDE: dict[str, Any] = {
    "transactional_id": "t-1",
    "request_timeout_ms": 1_000,
    "linger_ms": 0,
}


def _send_outside(noted: Noted, edits: tuple[Edit, ...] = ()) -> None:
    """Send outside a transaction, which fails, and is stored with the next transaction."""
    settings = OUTSIDE | {"transactional_id": noted.topic}
    with noted.driving("api-1", edits=edits, **settings) as drive:
        drive.tell("init")
        reaches_clock(noted)
        assert drive.tell("send 1") == "IllegalStateException"
        sent = now_ms()
        began = time.monotonic()
        while time.monotonic() < began + 3 and (noted.watermark or 0) <= sent:
            time.sleep(0.05)
        drive.tell("begin")
        drive.tell("send 100")
        assert drive.tell("commit") == "done"
        if not edits:
            reaches_clock(noted)
        drive.end()


def test_a_send_outside_a_transaction_holds_until_its_record_is_stored(make: Make) -> None:
    noted = make(1)
    _send_outside(noted)
    assert noted.late() == []
    assert sum(time is not None for time in noted.records()[0]) == 101


def test_callbacks_that_send_again_are_exact(make: Make) -> None:
    noted = make()
    with exact(noted, max_request_size=1_000, **SOON) as drive:
        drive.tell("again 200")
        drive.tell("again-large 2000")
        wait_until(lambda: drive.counts() == (201, 0))


def test_a_record_too_large_holds_until_the_ends_were_read_twice(make: Make) -> None:
    noted = make()
    with exact(noted, max_request_size=1_000, **SOON) as drive:
        reaches_clock(noted)
        sent = now_ms()
        drive.tell("large 2000")
        reaches_clock(noted)
        # As long as request.timeout.ms.
        assert now_ms() - sent >= 1_000


def test_a_record_whose_serializer_threw_an_error_holds_until_it_must_have_ended(
    make: Make,
) -> None:
    noted = make()
    with exact(noted, **SOON) as drive:
        reaches_clock(noted)
        sent = now_ms()
        assert drive.tell("error") == "StackOverflowError"
        reaches_clock(noted)
        # max.block.ms + delivery.timeout.ms + 10 s.
        assert now_ms() - sent >= 14_000


def test_a_producer_that_leaves_holds_nobody(make: Make) -> None:
    noted = make()
    named: dict[str, Any] = {
        "tidegauge_url": f"http://127.0.0.1:1/, {noted.urls}/",
        "tidegauge_scope": "elsewhere",
        "tidegauge_topics": f"{noted.topic} = {noted.name}",
        "tidegauge_leave": "true",
    }
    with noted.driving("api-1", **named) as drive:
        drive.tell("send 10")
        reaches_clock(noted)
        drive.end()
    assert noted.states() == {"api-1": "left"}
    assert noted.late() == []
    assert noted.mark[1] == {str(n): len(times) for n, times in noted.records().items()}


# What brokers and services do.


def _stop_for_longer_than_delivery(
    noted: Noted, broker: Broker, edits: tuple[Edit, ...] = ()
) -> bool:
    """Stop the broker until what was sent has failed; return whether it stores some of that as it goes on."""
    with noted.driving("api-1", edits=edits, **SOON) as drive:
        drive.tell("send 10")
        assert drive.counts() == (10, 0)
        reaches_clock(noted)
        broker.pause()
        try:
            drive.tell("send 10")
            sent = now_ms()
            wait_until(lambda: _ended(drive) == 20)
            until = time.monotonic() + 1
            while time.monotonic() < until and (noted.watermark or 0) <= sent:
                time.sleep(0.02)
        finally:
            broker.resume()
        reaches_clock(noted)
        stored, _ = drive.counts()
        drive.end()
    return sum(map(len, noted.records().values())) > stored


def _ended(drive: Program) -> int:
    _, stored, failed = drive.ask("count")
    return int(stored) + int(failed)


def test_what_failed_and_is_stored_after_all_is_not_late(
    make: Make, broker: Broker, effort: Effort
) -> None:
    stored, wanted = 0, effort.times("failed records that are stored", short=2, long=10)
    while stored < wanted:
        noted = make(1)
        stored += _stop_for_longer_than_delivery(noted, broker)
        assert noted.late() == []


def test_anything_at_once_is_exact_while_the_broker_stops_now_and_then(
    make: Make, broker: Broker, effort: Effort
) -> None:
    for _ in range(effort.times("producers", short=1, long=20)):
        noted = make()
        with noted.driving(
            "api-1", tidegauge_bound_ms=2_000, max_request_size=1_000, **SOON
        ) as drive:
            began = now_ms()
            drive.write("mixed 2000 1000")
            wait_until(lambda made=noted: len(made.all_marks()) > 3)  # type: ignore[misc]
            for length_s in (0.2, 3, 0.5):
                broker.pause()
                time.sleep(length_s)
                broker.resume()
                time.sleep(1)
            drive.answer()
            wait_until(lambda made=noted, at=began: (made.watermark or 0) >= at)  # type: ignore[misc]
            drive.end()
        assert noted.late() == []


def test_a_batch_that_is_stored_at_its_first_try_and_repeated_is_exact(
    make: Make, broker: Broker
) -> None:
    """The broker answers the repetition with the greatest timestamp of the batch for each record."""
    noted = make(1)
    more: dict[str, Any] = SOON | {"delivery_timeout_ms": 60_000, "linger_ms": 300}
    with noted.driving("api-1", tidegauge_bound_ms=300, **more) as drive:
        for _ in range(3):
            drive.tell("jump 50 300")
            drive.counts()
            broker.pause()
            try:
                drive.tell("jump 50 300")
                time.sleep(2)
            finally:
                broker.resume()
            sent = now_ms()
            drive.counts()
            drive.tell("at 0")
            wait_until(lambda at=sent: (noted.watermark or 0) >= at - 300)  # type: ignore[misc]
        assert "do not fit" not in drive.logged
        drive.end()
    assert noted.late() == []
    assert len(noted.records()[0]) == 303


def test_a_service_that_is_paused_killed_and_started_again_disturbs_no_producer(
    server: ServerProcess, broker: Broker
) -> None:
    with Noted(server.url, broker) as noted, exact(noted) as drive:
        drive.tell("steady 500")
        wait_until(lambda: len(noted.all_marks()) > 3)
        server.kill()
        stored, _ = drive.counts()
        wait_until(lambda: "ConnectException" in drive.logged)
        wait_until(lambda: drive.counts()[0] > stored + 500)
        server.start()
        reaches_clock(noted)
        drive.tell("halt")
        assert drive.logged.count("ConnectException") == 1


def test_fail_over_moves_the_notes(cluster: Cluster, broker: Broker, tmp_path: Path) -> None:
    with controllers(cluster, tmp_path, 2, lease_ms=LEASE_MS) as running:
        holder, (standby,) = running.holder, running.standbys
        # Only the standby is named: its redirect leads to the holder.
        with Noted(standby.url, broker, calls=holder.url) as noted, exact(noted) as drive:
            drive.tell("steady 500")
            wait_until(lambda: len(noted.all_marks()) > 3)
            holder.kill()
            noted.client.base_url = standby.url
            wait_until(lambda: is_ready(standby))
            reaches_clock(noted)
            drive.tell("halt")


def test_a_redirect_to_another_database_gets_no_token(
    shared_server: ServerProcess, broker: Broker, cluster: Cluster, tmp_path: Path
) -> None:
    database = cluster.database()
    (tmp_path / "holder").mkdir()
    (tmp_path / "standby").mkdir()
    standby = controller(tmp_path / "standby", database)
    with (
        controller(tmp_path / "holder", database, advertise_url=shared_server.url),
        standing_by(standby),
        Noted(standby.url, broker, calls=shared_server.url) as noted,
        noted.driving("api-1", tidegauge_token="secret") as drive,
    ):
        wait_until(lambda: "its --advertise-url" in drive.logged)
        assert noted.states() == {}


def test_a_producer_that_is_suspended_is_exact(make: Make) -> None:
    noted = make()
    with exact(noted, **SOON) as drive:
        drive.tell("steady 500")
        wait_until(lambda: len(noted.all_marks()) > 3)
        drive.pause()
        time.sleep(3)
        drive.resume()
        drive.tell("halt")
        drive.counts()


@contextmanager
def standing_by(standby: ServerProcess) -> Iterator[None]:
    """Run a controller that stands by."""
    standby.launch()
    try:
        wait_until(lambda: answers(standby))
        yield
    finally:
        standby.kill()


# What is noted not at all, or no more.


def test_settings_without_which_nothing_can_be_noted(make: Make, tmp_path: Path) -> None:
    noted = make()
    for more, told in (
        ({"client_id": ""}, "tidegauge.writer"),
        ({"tidegauge_url": "localhost"}, "write http://HOST:PORT"),
        ({"tidegauge_topics": "a=b=c"}, "write TOPIC, or TOPIC=SCOPE/STREAM"),
        ({"tidegauge_bound_ms": "soon"}, "tidegauge.bound.ms"),
    ):
        file = tmp_path / "settings"
        settings = noted.settings("api-1", **more)
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with noted.running("Drive", str(file), noted.topic) as refused:
            assert refused.process.wait(PATIENCE_S) == 1
            assert "ConfigException" in refused.logged
            assert told in refused.logged
    with noted.driving("api-1", acks="0") as drive:
        drive.tell("send 10")
        drive.end()
        assert drive.logged.count("with acks=0 nobody knows what is stored") == 1
    assert noted.states() == {}


def test_timestamps_that_another_interceptor_changes_stop_the_notes(make: Make) -> None:
    noted = make()
    both = "tidegauge.NotingInterceptor,Drive$Changing"
    with noted.driving("api-1", interceptor_classes=both) as drive:
        reaches_clock(noted)
        drive.tell("send 10")
        assert drive.counts() == (10, 0)
        wait_until(lambda: "is this the last interceptor?" in drive.logged)
        stands = noted.watermark
        assert stands is not None
        drive.tell("send 10")
        assert drive.counts() == (20, 0)
        # It goes on to say where it is.
        heard = _reported(noted)
        wait_until(lambda: _reported(noted) > heard)
        assert noted.watermark == stands
        drive.end()


def _reported(noted: Noted) -> int:
    """Read from the metrics how many reports the service got."""
    metrics = httpx.get(f"{noted.url}/metrics").text
    found = re.search(r'tidegauge_reports_total\{outcome="accepted"\} ([\d.]+)', metrics)
    assert found is not None
    return int(float(found[1]))


def test_a_count_that_was_wrong_is_outlived_while_records_overlap(make: Make) -> None:
    noted = make()
    with noted.driving("api-1", **SOON) as drive:
        began = now_ms()
        # Longer than max.block.ms + delivery.timeout.ms + 10 s, and before the last record has ended.
        drive.write("overlap 20000")
        wait_until(lambda: "do not fit" in drive.logged)
        wait_until(lambda: (noted.watermark or 0) >= began + 14_000)
        assert now_ms() < began + 20_000
        assert drive.answer()[0] == "done"
        drive.end()
    assert (noted.watermark or 0) <= now_ms()


def test_the_brokers_own_timestamps_are_not_noted(make: Make) -> None:
    noted = make(message_timestamp_type="LogAppendTime")
    with noted.driving("api-1") as drive:
        drive.tell("send 10")
        wait_until(lambda: "set CreateTime" in drive.logged)
        assert drive.counts() == (10, 0)
        drive.end()
    assert noted.all_marks() == []
    assert noted.states() == {"api-1": "left"}


def test_a_token_is_read_again_from_its_file(
    new_server: NewServer, broker: Broker, tmp_path: Path
) -> None:
    tokens, file = Tokens(tmp_path), tmp_path / "token"
    file.write_text("wrong\n")
    operator = tokens.header("operator", "kafka", "operate", "write", "read")
    with (
        new_server(tokens=tokens.file) as guarded,
        Noted(guarded.url, broker, headers=operator) as noted,
        exact(noted, tidegauge_token_file=file) as drive,
    ):
        wait_until(lambda: "401" in drive.logged)
        file.write_text(tokens.text("api-1", "kafka", "write") + "\n")


def test_a_stream_that_is_missing_is_named_with_its_command(make: Make) -> None:
    noted = make(3)
    httpx.delete(f"{noted.url}/v1/streams/{noted.name}").raise_for_status()
    with exact(noted) as drive:
        command = f"tidegauge create {noted.name} --log external --segments 3"
        wait_until(lambda: command in drive.logged)
        drive.tell("send 10")
        assert drive.counts() == (10, 0)
        noted.create(segments=3)


def test_the_second_process_of_a_name_has_it_and_the_first_goes_on_without(make: Make) -> None:
    noted = make()
    with noted.driving("api-1") as first:
        reaches_clock(noted)
        with exact(noted) as second:
            wait_until(lambda: "set tidegauge.writer" in first.logged)
            first.tell("send 10")
            assert first.counts() == (10, 0)
            first.end()
            second.tell("threads 100")
            assert second.counts() == (400, 0)


def test_a_topic_that_was_made_again_stops_the_notes(make: Make, broker: Broker) -> None:
    noted = make(1)
    with noted.driving("api-1") as drive:
        drive.tell("send 100")
        drive.counts()
        reaches_clock(noted)
        delete_topic(broker.bootstrap, noted.topic)
        create_topic(broker.bootstrap, noted.topic, partitions=1)
        with noted.driving("api-2") as other:
            other.tell("send 10")
            drive.tell("send 10")
            wait_until(lambda: "it was made again" in drive.logged)
            other.end()
        drive.end()
    with noted.driving("api-1") as after:
        wait_until(lambda: f"make stream {noted.name} again" in after.logged)


def test_a_partition_that_is_added_is_noted_once_the_stream_may_have_it(
    make: Make, broker: Broker
) -> None:
    noted = make(1)
    with exact(noted, metadata_max_age_ms=500) as drive:
        reaches_clock(noted)
        admin = AdminClient(quiet(broker.bootstrap))
        added = admin.create_partitions([NewPartitions(noted.topic, 2)])
        added[noted.topic].result(PATIENCE_S)
        drive.tell("steady 500")
        wait_until(lambda: f"tidegauge configure {noted.name} --max-segments 2" in drive.logged)
        noted.change(max_segments=2)
        reaches_clock(noted)
        drive.tell("halt")
    assert len(noted.records()[1]) > 0


def test_a_missing_right_is_named(shared_server: ServerProcess, tmp_path: Path) -> None:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = 'username="broker" password="b" user_broker="b" user_app="a"'
    demands: dict[str, Any] = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f"{plain} {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:broker;User:ANONYMOUS",
    }
    with Broker(tmp_path / "broker", **demands) as broker:
        secured = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        operator: dict[str, Any] = secured | {"sasl.username": "broker", "sasl.password": "b"}
        with Noted(shared_server.url, broker, 1, kafka=operator) as noted:
            admin = AdminClient(operator | quiet(broker.bootstrap))
            _allow(admin, noted.topic, AclOperation.WRITE)
            app: dict[str, Any] = {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "PLAIN",
                "sasl_jaas_config": f'{plain} username="app" password="a";',
                "enable_idempotence": "false",
            }
            with exact(noted, **app) as drive:
                drive.tell("send 10")
                assert drive.counts() == (10, 0)
                wait_until(lambda: "Describe, DescribeConfigs" in drive.logged)
                assert noted.all_marks() == []
                _allow(admin, noted.topic, AclOperation.DESCRIBE_CONFIGS)


def _allow(admin: AdminClient, topic: str, operation: AclOperation) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:app",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    for made in admin.create_acls([binding]).values():
        made.result(PATIENCE_S)


# Connect.


@contextmanager
def _connect(noted: Noted, folder: Path, port: int) -> Iterator[Program]:
    """Run a worker of Connect with the source of files."""
    worker = {
        "bootstrap.servers": noted.bootstrap,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "offset.storage.file.filename": folder / "offsets",
        "offset.flush.interval.ms": 500,
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.path": folder,
        "producer.interceptor.classes": "tidegauge.NotingInterceptor",
        "producer.tidegauge.url": noted.urls,
        "producer.tidegauge.every.ms": 100,
    }
    source = {
        "name": "lines",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": 1,
        "file": folder / "lines",
        "topic": noted.topic,
        "producer.override.tidegauge.topics": noted.topic,
        "producer.override.tidegauge.bound.ms": 2_000,
    }
    files = []
    for name, settings in (("worker", worker), ("source", source)):
        file = folder / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        files.append(str(file))
    with noted.running("org.apache.kafka.connect.cli.ConnectStandalone", *files) as program:
        yield program


def test_connect_is_exact_whose_worker_is_killed_and_whose_task_is_restarted(
    make: Make, tmp_path: Path
) -> None:
    noted = make(1)
    port = free_port()
    lines = (tmp_path / "lines").open("a")

    def write(count: int) -> None:
        """Write some lines, and wait until time has passed what was before."""
        before = noted.watermark or 0
        for number in range(count):
            print("line", number, file=lines, flush=True)
            time.sleep(0.002)
        wait_until(lambda: (noted.watermark or 0) > before)

    with lines:
        with _connect(noted, tmp_path, port) as worker:
            write(500)
            worker.process.kill()
        with _connect(noted, tmp_path, port):
            write(500)
            task = f"http://127.0.0.1:{port}/connectors/lines/tasks/0/restart"
            httpx.post(task, timeout=PATIENCE_S).raise_for_status()
            wait_until(lambda: next(noted.writers())["incarnation"] == 3)
            write(500)
    assert noted.late() == []
    assert noted.states() == {"connector-producer-lines-0": "active"}
    assert len(noted.records()[0]) >= 1_500


# The judge.


def test_the_judge_refuses_a_note_without_its_bound(make: Make) -> None:
    noted = make()
    edits = (("greatest - boundMs", "greatest"),)
    with noted.driving("api-1", tidegauge_bound_ms=300, edits=edits) as drive:
        drive.tell("jump 1000 300")
        drive.end()
    assert len(noted.late()) > 0


def test_the_judge_refuses_a_position_that_is_older_than_its_time(make: Make) -> None:
    noted = make()
    edits = (
        ("position = Map.copyOf(reached);", "position = stale; stale = Map.copyOf(reached);"),
        ("boolean stopped;", "boolean stopped; Map<Integer, Long> stale = Map.of();"),
    )
    with noted.driving("api-1", edits=edits) as drive:
        drive.tell("steady 500")
        wait_until(lambda: len(noted.all_marks()) > 10)
        drive.tell("halt")
        drive.end()
    assert len(noted.late()) > 0


def test_the_judge_refuses_a_failure_that_is_counted_twice(make: Make) -> None:
    noted = make(1)
    _send_outside(noted, ((" || failure instanceof IllegalStateException", ""),))
    assert len(noted.late()) > 0


def test_the_judge_refuses_a_failure_that_holds_nothing(make: Make, broker: Broker) -> None:
    noted = make(1)
    edits = (("failing = mayBeOld ? NEVER : Math.min(failing, least());", ""),)
    while not _stop_for_longer_than_delivery(noted, broker, edits):
        noted = make(1)
    assert len(noted.late()) > 0
