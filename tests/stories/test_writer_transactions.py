"""Transactions of writers: leaving the block commits, an exception aborts."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest

from reader_client import StreamClient
from tests.conftest import NewServer
from tests.patience import wait_until
from tests.service.log_api import Event, LogApi
from tests.service.transaction_api import listed
from tidegauge.errors import (
    InvalidTimeError,
    ProblemError,
    TimeInFutureError,
    TransactionFinishedError,
)
from writer_client import AsyncWriter, TransactionOpenError, Writer
from writer_client.strategies import BoundedOutOfOrderness, MonotonousTimestamps, PerPartition

pytestmark = pytest.mark.only_on("sqlite", "it is about the client")

TIME = 1_700_000_000_000
KEYS = ("k2", "k4")
"""One for each of two segments."""


@pytest.fixture
def log(log: LogApi) -> LogApi:
    log.create(segments=2, mark_resolution_ms=0)
    return log


@pytest.fixture
def writer(log: LogApi) -> Iterator[Writer]:
    with Writer(str(log.client.base_url), log.path.removeprefix("/v1/streams/"), "w") as one:
        yield one


class _DeliberateError(Exception):
    pass


def _mark(log: LogApi) -> tuple[int, dict[str, int]]:
    mark = log.json(log.client.get(f"{log.path}/watermark"))["mark"]
    return mark["lower"], mark["cut"]


def _values(events: list[Event]) -> list[str]:
    return [value.decode() for _, _, value in events]


def test_leaving_the_block_commits_with_the_time_that_was_noted(
    log: LogApi, writer: Writer
) -> None:
    with writer.transaction() as both:
        both.write("a", key=KEYS[0], event_time=TIME)
        both.write("b", key=KEYS[1], event_time=TIME)
        both.note_time(TIME)
        writer.flush()
        assert log.tail() == {"0": 0, "1": 0}
    assert both.position == {0: 1, 1: 1}
    assert _mark(log) == (TIME, {"0": 1, "1": 1})
    assert writer.position == {0: 1, 1: 1}
    with pytest.raises(InvalidTimeError):
        writer.note_time(TIME - 1)
    with pytest.raises(ValueError, match="over"):
        both.write("c", key="k")


def test_an_exception_aborts(log: LogApi, writer: Writer) -> None:
    def fail() -> None:
        with writer.transaction() as one:
            one.write("a", key=KEYS[0])
            raise _DeliberateError

    with pytest.raises(_DeliberateError):
        fail()
    assert [known["state"] for known in listed(log)] == ["aborted"]
    with writer.transaction() as another:
        another.write("b", key=KEYS[0])
    assert _values(log.events(0)) == ["b"]


def test_the_asynchronous_face_does_the_same(log: LogApi) -> None:
    async def fail(writer: AsyncWriter) -> None:
        async with writer.transaction() as other:
            await other.write("b", key=KEYS[0])
            raise _DeliberateError

    async def run() -> dict[int, int]:
        url, stream = str(log.client.base_url), log.path.removeprefix("/v1/streams/")
        async with AsyncWriter(url, stream, "w") as writer:
            async with writer.transaction() as one:
                await one.write("a", key=KEYS[0])
                one.note_time(TIME)
            with pytest.raises(_DeliberateError):
                await fail(writer)
            return one.position

    assert asyncio.run(run()) == {0: 1}
    assert _values(log.events(0)) == ["a"]


def test_what_is_written_outside_comes_before_what_the_commit_makes_visible(
    log: LogApi, writer: Writer
) -> None:
    with writer.transaction() as one:
        one.write("2", key=KEYS[0])
        writer.write("1", key=KEYS[0])
        one.write("3", key=KEYS[0])
        one.note_time(TIME)
    writer.write("4", key=KEYS[0])
    writer.flush()
    assert _values(log.events(0)) == ["1", "2", "3", "4"]
    assert _mark(log) == (TIME, {"0": 3, "1": 0})


def test_no_time_is_noted_and_no_other_begun_while_one_is_open(writer: Writer) -> None:
    with writer.transaction():
        with pytest.raises(TransactionOpenError, match="may be older than the time"):
            writer.note_time(TIME)
        with pytest.raises(TransactionOpenError, match="at most one"), writer.transaction():
            pass
    writer.note_time(TIME)
    with writer.transaction():
        pass


def test_the_next_note_covers_a_commit_without_a_time(log: LogApi, writer: Writer) -> None:
    with writer.transaction() as one:
        one.write("a", key=KEYS[0], event_time=TIME - 1)
    writer.note_time(TIME)
    writer.flush()
    assert _mark(log) == (TIME, {"0": 1, "1": 0})


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
    assert _values(log.events(0)) + _values(log.events(grown)) == ["1", "2", "3"]
    (other,) = {2, 3} - {grown}
    assert _mark(log)[1] == {"1": 0, str(grown): len(log.events(grown)), str(other): 0}


def test_a_refused_time_aborts_and_the_writer_goes_on(log: LogApi, writer: Writer) -> None:
    def fail() -> None:
        with writer.transaction() as one:
            one.write("a", key=KEYS[0])
            one.note_time(2**62)

    with pytest.raises(TimeInFutureError):
        fail()
    assert [known["state"] for known in listed(log)] == ["aborted"]
    with writer.transaction() as another:
        another.note_time(TIME)
    assert _mark(log) == (TIME, {"0": 0, "1": 0})


def test_a_registration_under_the_name_ends_it(log: LogApi, writer: Writer) -> None:
    def go_on() -> None:
        with writer.transaction() as one:
            log.register()
            one.write("a", key=KEYS[0])

    with pytest.raises(TransactionFinishedError):
        go_on()


def test_nothing_is_committed_once_something_was_not_staged(new_server: NewServer) -> None:
    def write_too_much(writer: Writer) -> None:
        with writer.transaction() as one:
            one.write("a", key=KEYS[0])
            with pytest.raises(ProblemError):
                one.write(b"x" * 2_000_000, key=KEYS[0])

    with new_server(max_transaction_bytes=1_000_000) as server, LogApi(server.url) as log:
        log.create()
        with Writer(server.url, "tests/log", "w") as writer:
            with pytest.raises(ProblemError, match="transaction_too_large"):
                write_too_much(writer)
            assert [known["state"] for known in listed(log)] == ["aborted"]
            assert log.tail() == {"0": 0}


def test_its_lease_is_kept_while_the_block_runs(log: LogApi, writer: Writer) -> None:
    with writer.transaction(timeout=timedelta(seconds=1)) as one:
        other = log.json(
            log.client.post(
                f"{log.path}/transactions",
                json={"writer": "w", "incarnation": 1, "timeout_ms": 1_500},
            )
        )
        path = f"{log.path}/transactions/{other['id']}"
        wait_until(lambda: log.json(log.client.get(path))["state"] == "aborted")
        one.write("a", key=KEYS[0])
    assert one.position == {0: 1}


def test_much_is_written_by_several_threads_in_the_order_of_each(
    log: LogApi, writer: Writer
) -> None:
    with writer.transaction() as one:

        def write(name: str) -> None:
            for number in range(20_000):
                one.write(f"{name}{number}", key=name)

        threads = [threading.Thread(target=write, args=(name,)) for name in KEYS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with StreamClient(
        str(log.client.base_url), log.path.removeprefix("/v1/streams/")
    ) as reader:
        for segment, name in enumerate(KEYS):
            read = [
                value.decode()
                for events in reader.read(segment, 0, 20_000)
                for value in events.batch.column("value").to_pylist()
            ]
            assert read == [f"{name}{number}" for number in range(20_000)]


def test_ingestion_time_is_noted_by_the_commit_and_not_before(log: LogApi) -> None:
    url, stream = str(log.client.base_url), log.path.removeprefix("/v1/streams/")
    with Writer(url, stream, "w", automatically_note_time=True) as writer:
        with writer.transaction() as one:
            one.write("a", key=KEYS[0])
            before = _mark_or_none(log)
        ((_, time, _),) = log.events(0)
        lower, cut = _mark(log)
        assert time is not None
        assert before is None or before <= time <= lower
        assert cut["0"] == 1


def test_a_commit_notes_what_the_strategy_says_of_its_events_and_an_aborted_one_moves_nothing(
    log: LogApi,
) -> None:
    url, stream = str(log.client.base_url), log.path.removeprefix("/v1/streams/")
    strategy = BoundedOutOfOrderness(timedelta(milliseconds=10))

    def fail(writer: Writer) -> None:
        with writer.transaction() as aborted:
            aborted.write("a", key=KEYS[0], event_time=TIME + 5_000)
            raise _DeliberateError

    with Writer(url, stream, "w", strategy=strategy) as writer:
        with pytest.raises(_DeliberateError):
            fail(writer)
        with writer.transaction() as one:
            one.write_many(["a", "b"], keys=KEYS, event_times=[TIME, TIME - 10])
            writer.flush()
            assert _mark_or_none(log) is None
        assert _mark(log) == (TIME - 10, {"0": 1, "1": 1})
        writer.write("c", key=KEYS[0], event_time=TIME + 20)
        writer.flush()
        assert _mark(log) == (TIME + 10, {"0": 2, "1": 1})
        assert writer.late_events == 0


def test_a_transaction_that_the_service_ended_moves_no_strategy(log: LogApi) -> None:
    url, stream = str(log.client.base_url), log.path.removeprefix("/v1/streams/")
    strategy = BoundedOutOfOrderness(timedelta(0))
    with Writer(url, stream, "w", strategy=strategy) as writer:

        def write(*, ended: bool) -> None:
            with writer.transaction() as one:
                one.write_many(["a", "b"], keys=KEYS, event_times=[TIME, TIME + 5_000])
                if ended:
                    log.client.post(f"{log.path}/transactions/{one.id}/abort")

        with pytest.raises(TransactionFinishedError):
            write(ended=True)
        writer.flush()
        assert _mark_or_none(log) is None
        write(ended=False)
        assert (writer.late_events, _mark(log)[0]) == (0, TIME + 5_000)


def test_what_a_transaction_writes_is_of_the_partition_that_it_names(log: LogApi) -> None:
    url, stream = str(log.client.base_url), log.path.removeprefix("/v1/streams/")
    strategy = PerPartition(MonotonousTimestamps, [0, 1])
    with Writer(url, stream, "w", strategy=strategy) as writer, writer.transaction() as one:
        one.write("a", key=KEYS[0], event_time=TIME, source=0)
        one.write_many(["b"], keys=KEYS[1:], event_times=[TIME + 5], source=1)
    assert _mark(log)[0] == TIME


def test_a_transaction_takes_nothing_outside_its_block_and_no_odd_lease(writer: Writer) -> None:
    with pytest.raises(ValueError, match="has not begun; write in its block"):
        writer.transaction().write("a", key=KEYS[0])
    with pytest.raises(ValueError, match="it is a second at least"):
        writer.transaction(timeout=timedelta(seconds=0.5))


def _mark_or_none(log: LogApi) -> int | None:
    answer: httpx.Response = log.client.get(f"{log.path}/watermark")
    mark: int | None = log.json(answer)["watermark"]
    return mark
