"""Transactions of writers: leaving the block commits, an exception aborts.

The simulation writes transactions with the asynchronous face, among all faults.
"""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.service.log_api import LogApi
from tests.service.transaction_api import listed
from tests.simulation.quiet import QuietWorld
from tests.unit.conftest import Serve
from tidegauge.errors import (
    InvalidTimeError,
    ProblemError,
    TimeInFutureError,
    TransactionFinishedError,
)
from writer_client import AsyncWriter, TransactionOpenError, Writer
from writer_client.strategies import BoundedOutOfOrderness, MonotonousTimestamps, PerPartition

TIME = 1_700_000_000_000
KEYS = ("k2", "k4")
"""One for each of two segments."""


@pytest.fixture
def log(log: LogApi) -> LogApi:
    log.create(segments=2, mark_resolution_ms=0)
    return log


@pytest.fixture
def writer(log: LogApi) -> Iterator[Writer]:
    with log.writer("w") as one:
        yield one


class _DeliberateError(Exception):
    pass


def _write_and_fail(writer: Writer, **event: Any) -> None:
    """Write an event in a transaction that ends by an exception."""
    with writer.transaction() as one:
        one.write("a", key=KEYS[0], **event)
        raise _DeliberateError


def _values(log: LogApi, segment: int = 0) -> list[str]:
    return [value.decode() for _, _, value in log.events(segment)]


def _states(log: LogApi) -> list[str]:
    return [transaction["state"] for transaction in listed(log)]


def test_leaving_the_block_commits_with_the_time_that_was_noted(
    log: LogApi, writer: Writer
) -> None:
    with writer.transaction() as both:
        both.write("a", key=KEYS[0], event_time=TIME)
        both.write("b", key=KEYS[1], event_time=TIME)
        both.note_time(TIME)
        writer.flush()
        assert log.tail() == {"0": 0, "1": 0}
    assert both.position == writer.position == {0: 1, 1: 1}
    assert log.mark == (TIME, {"0": 1, "1": 1})
    with pytest.raises(InvalidTimeError):
        writer.note_time(TIME - 1)
    with pytest.raises(ValueError, match="over"):
        both.write("c", key="k")


def test_no_time_is_noted_and_no_other_begun_while_one_is_open(writer: Writer) -> None:
    with writer.transaction():
        with pytest.raises(TransactionOpenError, match="may be older than the time"):
            writer.note_time(TIME)
        with pytest.raises(TransactionOpenError, match="at most one"), writer.transaction():
            pass
    writer.note_time(TIME)
    with writer.transaction():
        pass


def test_a_refused_time_aborts_and_the_writer_goes_on(log: LogApi, writer: Writer) -> None:
    def fail() -> None:
        with writer.transaction() as one:
            one.write("a", key=KEYS[0])
            one.note_time(2**62)

    with pytest.raises(TimeInFutureError):
        fail()
    assert _states(log) == ["aborted"]
    with writer.transaction() as another:
        another.note_time(TIME)
    assert log.mark == (TIME, {"0": 0, "1": 0})


def test_nothing_is_committed_once_something_was_not_staged(serve: Serve) -> None:
    def write_too_much(writer: Writer) -> None:
        with writer.transaction() as one:
            one.write("a", key=KEYS[0])
            with pytest.raises(ProblemError):
                one.write(b"x" * 2_000_000, key=KEYS[0])

    with serve(max_transaction_bytes=1_000_000) as log:
        log.create()
        with log.writer("w") as writer:
            with pytest.raises(ProblemError, match="transaction_too_large"):
                write_too_much(writer)
            assert _states(log) == ["aborted"]
            assert log.tail() == {"0": 0}


def test_its_lease_is_kept_while_the_block_runs(world: QuietWorld) -> None:
    shop = LogApi(world.controllers[0].url, "shop/orders", transport=world.transport())
    shop.create()
    writer = AsyncWriter(shop.url, shop.name, "w")
    one = writer.transaction(timeout=timedelta(seconds=1))
    world.run(one.__aenter__())
    other = shop.post("transactions", writer="w", incarnation=1, timeout_ms=1_500)["id"]
    world.sleep(3)
    states = {known["id"]: known["state"] for known in shop.get("transactions")["transactions"]}
    assert states == {one.id: "open", other: "aborted"}
    world.run(one.write("a", key="k"))
    world.run(one.__aexit__(None, None, None))
    assert one.position == {0: 1}
    world.run(writer.close())


def test_much_is_written_by_several_threads_in_the_order_of_each(
    log: LogApi, writer: Writer
) -> None:
    values = [str(number) for number in range(20_000)]
    with writer.transaction() as one:

        def write(key: str) -> None:
            for value in values:
                one.write(value, key=key)

        threads = [threading.Thread(target=write, args=(key,)) for key in KEYS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [_values(log, segment) for segment in (0, 1)] == [values, values]


def test_a_commit_notes_what_the_strategy_says_of_its_events_and_an_aborted_one_moves_nothing(
    log: LogApi,
) -> None:
    with log.writer("w", strategy=BoundedOutOfOrderness(timedelta(milliseconds=10))) as writer:
        with pytest.raises(_DeliberateError):
            _write_and_fail(writer, event_time=TIME + 5_000)
        with writer.transaction() as one:
            one.write_many(["a", "b"], keys=KEYS, event_times=[TIME, TIME - 10])
            writer.flush()
            assert log.mark is None
        assert log.mark == (TIME - 10, {"0": 1, "1": 1})
        writer.write("c", key=KEYS[0], event_time=TIME + 20)
        writer.flush()
        assert log.mark == (TIME + 10, {"0": 2, "1": 1})
        assert writer.late_events == 0


def test_a_transaction_that_the_service_ended_moves_no_strategy(log: LogApi) -> None:
    with log.writer("w", strategy=BoundedOutOfOrderness(timedelta(0))) as writer:

        def write(*, ended: bool) -> None:
            with writer.transaction() as one:
                one.write_many(["a", "b"], keys=KEYS, event_times=[TIME, TIME + 5_000])
                if ended:
                    log.client.post(f"{log.path}/transactions/{one.id}/abort")

        with pytest.raises(TransactionFinishedError):
            write(ended=True)
        writer.flush()
        assert log.mark is None
        write(ended=False)
        assert log.mark == (TIME + 5_000, {"0": 1, "1": 1})
        assert writer.late_events == 0


def test_what_a_transaction_writes_is_of_the_partition_that_it_names(log: LogApi) -> None:
    strategy = PerPartition(MonotonousTimestamps, [0, 1])
    with log.writer("w", strategy=strategy) as writer, writer.transaction() as one:
        one.write("a", key=KEYS[0], event_time=TIME, source=0)
        one.write_many(["b"], keys=KEYS[1:], event_times=[TIME + 5], source=1)
    assert log.mark == (TIME, {"0": 1, "1": 1})


def test_an_exception_aborts(log: LogApi, writer: Writer) -> None:
    with pytest.raises(_DeliberateError):
        _write_and_fail(writer)
    assert _states(log) == ["aborted"]
    with writer.transaction() as another:
        another.write("b", key=KEYS[0])
    assert _values(log) == ["b"]


def test_a_commit_behind_a_split_is_followed_by_notes(log: LogApi, writer: Writer) -> None:
    writer.write("1", key=KEYS[0])
    with writer.transaction() as one:
        one.write("2", key=KEYS[0])
        ranges = [[0, 0.25], [0.25, 0.5]]
        answer = log.client.post(f"{log.path}/scale", json={"seal": [0], "ranges": ranges})
        assert answer.status_code == 200, answer.text
    writer.write("3", key=KEYS[0])
    writer.note_time(TIME)
    writer.flush()
    (grown,) = (number for number in one.position if number != 0)
    assert _values(log) + _values(log, grown) == ["1", "2", "3"]
    (other,) = {2, 3} - {grown}
    assert log.mark == (TIME, {"1": 0, str(grown): len(_values(log, grown)), str(other): 0})
