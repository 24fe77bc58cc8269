"""Writers and reporters in process: nothing lost, and notes that mean what they say."""

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.service.api import Api, Open
from tidegauge.errors import (
    LogIsExternalError,
    StreamSealedError,
    TimeInFutureError,
    UnknownStreamError,
    WriterFencedError,
)
from writer_client import (
    AsyncTimeReporter,
    AsyncWriter,
    WriterClosedError,
)
from writer_client._events import MOST_VALUE_BYTES

NEVER = timedelta(hours=1)
"""How long events linger that nobody is to send."""
SMALL: dict[str, Any] = {"batch_bytes": 2_000, "buffer_bytes": 4_000}
"""A buffer for some twenty events."""


@pytest.fixture
def shop(open_shop: Open) -> Api:
    """A stream with a log of one segment."""
    return open_shop(log="embedded")


def _asynchronous(shop: Api, **options: Any) -> AsyncWriter:
    return AsyncWriter(shop.url, shop.name, "async", **options)


def _raised_by(error: type[Exception], *calls: Callable[[], object]) -> Any:
    """Check that each call raises the same error, and return the first."""
    raised = []
    for call in calls:
        with pytest.raises(error) as caught:
            call()
        raised.append(caught.value)
    return raised[0]


def test_a_value_that_is_too_large_is_refused_alone_and_the_largest_is_stored(
    shop: Api,
) -> None:
    limit = MOST_VALUE_BYTES
    refused = f"'key-7' has {limit + 1} bytes, and the service takes {limit}"
    with shop.writer() as writer:
        with pytest.raises(ValueError, match=refused):
            writer.write(bytes(limit + 1), key="key-7")
        with writer.transaction() as one:
            one.write(bytes(1_000_000), key="key-1")
            with pytest.raises(ValueError, match=refused):
                one.write(bytes(limit + 1), key="key-7")
            one.write(bytes(limit), key="key-7")
        writer.write(bytes(limit), key="key-7")
    (rows,) = shop.stored("value")
    assert [len(value) for (value,) in rows] == [1_000_000, limit, limit]


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"value": 7}, TypeError, "pass bytes or str"),
    ({"key": 7}, TypeError, "it routes the event"),
    ({"event_time": 1.5}, TypeError, "integer milliseconds"),
    ({"event_time": 1_704_067_200_000_000}, ValueError, "are these microseconds"),
]


def test_what_cannot_be_written_is_refused_at_once(shop: Api) -> None:
    with shop.writer() as writer:
        for wrong, error, said in WRONG:
            with pytest.raises(error, match=said):
                writer.write(**{"value": "7", "key": "k"} | wrong)
        with pytest.raises(ValueError, match="no time zone"):
            writer.note_time(datetime(2024, 1, 1))  # noqa: DTZ001 (that is the point)
        with pytest.raises(ValueError, match="2 values and 1 keys; pass as many"):
            writer.write_many(["1", "2"], keys=["k"])
        writer.write_many([], keys=[])
        assert writer.unstored == 0
        writer.write("8", key="k", event_time=datetime(2024, 1, 1, tzinfo=UTC))
        writer.write_many(["9"], keys=["k"])
    assert shop.stored("event_time", "value") == [[(1_704_067_200_000, b"8"), (None, b"9")]]


def test_threads_that_write_their_first_events_together_register_once(shop: Api) -> None:
    writer, start = shop.writer(), threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        writer.write(str(number), key="k", event_time=number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    assert writer.incarnation == 1
    assert shop.numbers() == list(range(8))


def test_closing_stays_a_member_and_leaving_does_not(shop: Api) -> None:
    with shop.writer("stays") as writer:
        writer.note_time(1_000)
    leaver = shop.writer("leaves")
    leaver.note_time(2_000)
    leaver.leave()
    assert shop.states() == {"leaves": "left", "stays": "behind"}
    _raised_by(WriterClosedError, lambda: leaver.write("late", key="k"), leaver.flush)
    leaver.close()


def test_closing_notes_the_last_time_again_with_the_final_position(shop: Api) -> None:
    with shop.writer() as writer:
        writer.note_time(1_000)
        writer.flush()
        writer.write("1", key="k", event_time=1_000)
        writer.flush()
        assert [one["position"] for one in shop.writers()] == [{}]
    assert [one["position"] for one in shop.writers()] == [{"0": 1}]
    with shop.writer() as writer:
        assert writer.position == {0: 1}


def test_leaving_the_block_on_an_exception_stores_what_was_written(shop: Api) -> None:
    def fail() -> None:
        with shop.writer(linger=NEVER) as writer:
            writer.write("1", key="k", event_time=1)
            raise ZeroDivisionError

    _raised_by(ZeroDivisionError, fail)
    assert shop.numbers() == [1]


@pytest.mark.anyio
async def test_a_writer_that_noted_time_before_it_opened_keeps_its_word(shop: Api) -> None:
    writer = _asynchronous(shop)
    writer.note_time(1_000)
    await writer.close()
    assert shop.marks() == [(1_000, {0: 0})]


def test_a_full_buffer_makes_writers_wait_and_nothing_is_lost(shop: Api) -> None:
    values = [str(number).rjust(100) for number in range(500)]
    with shop.writer(**SMALL) as writer:
        for value in values[:250]:
            writer.write(value, key="k")
            assert writer.unstored <= 40
        writer.write_many(values[250:], keys=["k"] * 250)
        assert 0 < writer.unstored <= 40
    assert shop.numbers() == list(range(500))


@pytest.mark.anyio
async def test_an_asynchronous_writer_waits_while_the_buffer_is_full(shop: Api) -> None:
    values = [str(number).rjust(100) for number in range(500)]
    async with _asynchronous(shop, **SMALL) as writer:
        for value in values[:250]:
            await writer.write(value, key="k")
            assert writer.unstored <= 40
        await writer.write_many(values[250:], keys=["k"] * 250)
        assert 0 < writer.unstored <= 40
        await writer.flush()
        assert writer.unstored == 0
    assert shop.numbers() == list(range(500))


def test_a_writer_whose_name_is_taken_stops(shop: Api) -> None:
    former, blocked = shop.writer("same"), shop.writer("blocked", buffer_bytes=1)
    for writer in (former, blocked):
        writer.open()
        shop.says(writer.name, "register")
        writer.write("1", key="k", event_time=1)
    fenced = _raised_by(
        WriterFencedError,
        former.flush,
        lambda: former.write("2", key="k", event_time=2),
        lambda: former.note_time(3),
        former.close,
        former.flush,
    )
    assert fenced.incarnation == 2
    assert fenced.__notes__ == ["1 events are not stored"]
    # whoever waits for room is woken, too
    _raised_by(WriterFencedError, lambda: blocked.write("2", key="k"), blocked.leave)
    assert shop.numbers() == []


def test_a_refused_note_stops_the_writer_but_not_the_events_before_it(shop: Api) -> None:
    writer, microseconds = shop.writer(), 1_700_000_000_000_000
    writer.write("1", key="k", event_time=1)
    writer.note_time(microseconds)
    refused = _raised_by(
        TimeInFutureError,
        writer.flush,
        lambda: writer.write("2", key="k", event_time=2),
        writer.close,
    )
    assert refused.time == microseconds
    assert shop.numbers() == [1]


def test_streams_that_cannot_be_written_to_say_why(open_shop: Open) -> None:
    external, sealed, deleted = open_shop(), open_shop(log="embedded"), open_shop()
    sealed.post("seal")
    deleted.client.delete(deleted.path).raise_for_status()
    for shop, error in (
        (deleted, UnknownStreamError),
        (external, LogIsExternalError),
        (sealed, StreamSealedError),
    ):
        writer = shop.writer()
        _raised_by(error, writer.open)
        writer.close()


def test_a_stream_that_is_sealed_stops_its_writers(open_shop: Open) -> None:
    shop = open_shop(log="embedded")
    writer = shop.writer()
    writer.open()
    shop.post("seal")
    writer.write("1", key="k", event_time=1)
    _raised_by(StreamSealedError, writer.flush, writer.close)


def test_a_writer_that_nobody_closes_says_what_may_be_lost(shop: Api) -> None:
    writer = shop.writer(linger=NEVER)
    writer.write("1", key="k", event_time=1)
    core, thread = writer._core, writer._thread
    said = "writer 'api-1' was never closed: 1 events may not be stored"
    with pytest.warns(RuntimeWarning, match=said):
        del writer
    thread.end(core.close)


@pytest.mark.anyio
async def test_a_reporter_leaves_behind_the_notes_that_are_on_their_way(
    open_shop: Open,
) -> None:
    shop = open_shop()
    reporter = AsyncTimeReporter(shop.url, shop.name, "api-1")
    await reporter.note_time(1_000, {0: 1})
    notes = [
        asyncio.create_task(reporter.note_time(time, {0: time})) for time in (2_000, 3_000)
    ]
    await asyncio.sleep(0)  # both have begun; the second waits for the first
    leaving = asyncio.create_task(reporter.leave())
    await asyncio.gather(*notes, leaving)
    with pytest.raises(WriterClosedError):
        await reporter.note_time(4_000, {0: 4_000})
    assert shop.states() == {"api-1": "left"}
