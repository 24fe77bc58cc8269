"""Observers of a topic over kills, an outage of the service, and others that speak for their writers."""

import signal

import pytest

from tests.broker import Broker
from tests.changefeeds import COCKROACHDB
from tests.patience import PATIENCE_S, wait_until
from tests.server import ServerProcess
from tests.service.api import NOON
from tests.service.observed import SOON, Observed, record

pytestmark = pytest.mark.only_on("sqlite", "the verb knows the service only")


def test_the_other_observer_takes_over_from_one_that_is_killed(
    observed_of_two: Observed,
) -> None:
    words = ("--from", "beginning", "--strategy", "bounded:1s", "--idle", "never", *SOON)
    observed_of_two.produce(record(0, NOON), record(1, NOON))
    with observed_of_two.observing(*words) as first:
        wait_until(lambda: observed_of_two.watermark == NOON - 1_000)
        with observed_of_two.observing(*words) as second:
            # One of the two was registered again, by its new owner.
            wait_until(
                lambda: sum(it["incarnation"] for it in observed_of_two.noted().values()) == 3
            )
            observed_of_two.produce(record(0, NOON + 5_000), record(1, NOON + 6_000))
            wait_until(
                lambda: observed_of_two.times() == {"0": NOON + 4_000, "1": NOON + 5_000}
            )
            first.kill()
            observed_of_two.produce(record(0, NOON + 20_000), record(1, NOON + 20_000))
            wait_until(lambda: observed_of_two.watermark == NOON + 19_000)
            assert sum(it["incarnation"] for it in observed_of_two.noted().values()) == 4
            assert second.poll() is None


def test_observing_goes_on_when_the_service_does(server: ServerProcess, broker: Broker) -> None:
    observed = Observed(server, broker, 1)
    observed.produce(record(0, NOON, key="a"))
    words = ("--by", "key", "--from", "beginning", "--strategy", "bounded:1s")
    with observed.observing(*words) as process:
        wait_until(lambda: observed.watermark == NOON - 1_000)
        server.kill()
        observed.produce(record(0, NOON + 5_000, key="a"), record(0, NOON + 7_000, key="b"))
        assert process.stderr is not None
        begun = next(line for line in process.stderr if "retrying http" in line)
        assert "until it answers" in begun
        server.start()
        wait_until(lambda: observed.watermark == NOON + 4_000)
        assert observed.states() == {"a.0": "active", "b.0": "active"}
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=PATIENCE_S) == 130
    observed.close()


def test_a_writer_that_another_process_registers_is_given_up(observed: Observed) -> None:
    words = ("--by", "key", "--from", "beginning", "--strategy", "bounded:1s", *SOON)
    observed.produce(record(0, NOON, key="a"), record(0, NOON, key="b"))
    with observed.observing(*words) as process:
        wait_until(lambda: observed.watermark == NOON - 1_000)
        observed.post("writers/a.0/register")
        observed.produce(record(0, NOON + 5_000, key="a"), record(0, NOON + 9_000, key="b"))
        wait_until(lambda: observed.times()["b.0"] == NOON + 8_000)
        process.send_signal(signal.SIGINT)
        _, warned = process.communicate(timeout=PATIENCE_S)
    assert "another process notes time as writer 'a.0' now" in warned
    assert observed.noted()["a.0"]["incarnation"] == 2
    assert observed.watermark == NOON - 1_000


def test_observers_that_begin_together_wait_for_the_partitions_of_each_other(
    observed_of_two: Observed,
) -> None:
    observed, feed = observed_of_two, COCKROACHDB
    words = ("--promises", feed.name, "--from", "beginning", *SOON)
    observed.produce(feed.promise(0, NOON), feed.row(1, NOON - 1_000), feed.promise(1, NOON))
    with observed.observing(*words), observed.observing(*words):
        wait_until(lambda: observed.watermark == NOON)
        # One may have read both before the other joined the group: the mark is the same.
        assert [cut for _, cut in observed.marks()] == [{0: 1, 1: 2}]
