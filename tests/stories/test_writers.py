"""Writers over a real server: nothing lost, nothing twice, and notes that mean what they say."""

import asyncio
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from itertools import count

import httpx
import pytest

from reader_client import StreamClient
from tests.server import ServerProcess
from tidegauge.errors import (
    InvalidTimeError,
    LogIsExternalError,
    StreamReplacedError,
    StreamSealedError,
    TimeInFutureError,
    UnknownStreamError,
    WriterFencedError,
)
from writer_client import (
    AsyncTimeReporter,
    AsyncWriter,
    EventsNotStoredError,
    ServiceUnreachableError,
    TimeReporter,
    Writer,
    WriterClosedError,
)
from writer_client._events import MOST_VALUE_BYTES

_NUMBERS = count(1)


def _stream(server: ServerProcess, **settings: object) -> str:
    name = f"writers/stream-{next(_NUMBERS)}"
    wanted = {"segments": 2, "mark_interval_ms": 0, "mark_resolution_ms": 0} | settings
    answer = httpx.put(f"{server.url}/v1/streams/{name}", json=wanted)
    answer.raise_for_status()
    return name


def _values(server: ServerProcess, stream: str) -> list[list[str]]:
    """Read what is stored, segment by segment."""
    with StreamClient(server.url, stream) as client:
        return [
            [
                value.decode()
                for events in client.read(segment, 0, end)
                for value in events.batch.column("value").to_pylist()
            ]
            for segment, end in sorted(client.tail().tail.items())
        ]


def _numbers(server: ServerProcess, stream: str) -> list[int]:
    return sorted(int(value) for segment in _values(server, stream) for value in segment)


def _marks(server: ServerProcess, stream: str) -> list[tuple[int, dict[int, int]]]:
    with StreamClient(server.url, stream) as client:
        return [(mark.lower, dict(mark.cut)) for mark in client.marks()]


def _states(server: ServerProcess, stream: str) -> dict[str, str]:
    answer = httpx.get(f"{server.url}/v1/streams/{stream}/writers").json()
    return {one["writer"]: one["state"] for one in answer["writers"]}


@pytest.mark.only_on("sqlite", "it is about the client")
def test_a_value_that_is_too_large_is_refused_alone_and_the_largest_is_stored(
    shared_server: ServerProcess,
) -> None:
    stream, limit = _stream(shared_server, segments=1), MOST_VALUE_BYTES
    refused = f"'key-7' has {limit + 1} bytes, and the service takes {limit}"
    with Writer(shared_server.url, stream, "one") as writer:
        with pytest.raises(ValueError, match=refused):
            writer.write(bytes(limit + 1), key="key-7")
        with writer.transaction() as one:
            one.write(bytes(1_000_000), key="key-1")
            with pytest.raises(ValueError, match=refused):
                one.write(bytes(limit + 1), key="key-7")
            one.write(bytes(limit), key="key-7")
        writer.write(bytes(limit), key="key-7")

    async def write() -> None:
        async with AsyncWriter(shared_server.url, stream, "two") as writer:
            with pytest.raises(ValueError, match=refused):
                await writer.write("\0" * (limit + 1), key="key-7")
            async with writer.transaction() as one:
                with pytest.raises(ValueError, match=refused):
                    await one.write(bytes(limit + 1), key="key-7")
            await writer.write("last", key="key-7")

    asyncio.run(write())
    (values,) = _values(shared_server, stream)
    assert [len(value) for value in values] == [1_000_000, limit, limit, 4]


def test_a_note_covers_what_was_written_before_it(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server)
    with Writer(shared_server.url, stream, "one") as writer:
        for number in range(100):
            writer.write(str(number), key=f"key-{number}", event_time=number)
        writer.note_time(datetime(2023, 11, 14, 22, 13, 20, 999, tzinfo=UTC))
        writer.write("100", key="key-0", event_time=1_800_000_000_000)
        writer.flush()
        with StreamClient(shared_server.url, stream) as client:
            (mark,) = client.marks(wait_ms=5_000)
        assert mark.lower == 1_700_000_000_000
        assert sum(mark.cut.values()) == 100
        assert sum(writer.position.values()) == 101
        assert writer.watermark == 1_700_000_000_000


def test_threads_that_write_their_first_events_together_register_once(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server)
    writer = Writer(shared_server.url, stream, "one")
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        writer.write(str(number), key="k", event_time=number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    writer.close()
    assert writer.incarnation == 1
    assert _numbers(shared_server, stream) == list(range(8))


def test_closing_stays_a_member_and_leaving_does_not(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server)
    with Writer(shared_server.url, stream, "stays") as writer:
        writer.note_time(1_000)
    leaver = Writer(shared_server.url, stream, "leaves")
    leaver.note_time(2_000)
    leaver.leave()
    assert _states(shared_server, stream) == {"leaves": "left", "stays": "behind"}
    with pytest.raises(WriterClosedError):
        leaver.write("late", key="k")
    with pytest.raises(WriterClosedError):
        leaver.flush()
    leaver.close()


def test_closing_notes_the_last_time_again_with_the_final_position(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server, segments=1)
    with Writer(shared_server.url, stream, "one") as writer:
        writer.note_time(1_000)
        writer.write("1", key="k", event_time=1_000)
    with Writer(shared_server.url, stream, "two", first_time=1_000) as other:
        other.note_time(2_000)
    with Writer(shared_server.url, stream, "one") as writer:
        assert writer.position == {0: 1}
        writer.note_time(2_000)
    assert _marks(shared_server, stream)[-1] == (2_000, {0: 1})


def test_leaving_the_block_on_an_exception_stores_what_was_written(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server)

    def fail() -> None:
        with Writer(shared_server.url, stream, "one", linger=timedelta(hours=1)) as writer:
            writer.write("1", key="k", event_time=1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert _numbers(shared_server, stream) == [1]


def test_a_writer_that_noted_time_before_it_opened_keeps_its_word(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server, segments=1)

    async def note() -> None:
        writer = AsyncWriter(shared_server.url, stream, "one")
        writer.note_time(1_000)
        await writer.close()

    asyncio.run(note())
    assert _marks(shared_server, stream) == [(1_000, {0: 0})]


def test_lingering_events_are_sent_without_a_flush(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server, segments=1)
    with (
        Writer(shared_server.url, stream, "one", linger=timedelta(milliseconds=20)) as writer,
        StreamClient(shared_server.url, stream) as client,
    ):
        writer.write("1", key="k", event_time=1)
        writer.write("2", key="k", event_time=2)
        assert client.tail(after={0: 1}, wait_ms=10_000).tail == {0: 2}


def test_a_full_buffer_makes_writers_wait_and_nothing_is_lost(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server)
    options = {"batch_bytes": 2_000, "buffer_bytes": 4_000}
    with Writer(shared_server.url, stream, "one", **options) as writer:  # type: ignore[arg-type]
        for number in range(500):
            writer.write(str(number).rjust(100), key=f"key-{number}", event_time=number)
            assert writer.unstored <= 40
    assert _numbers(shared_server, stream) == list(range(500))


def test_an_asynchronous_writer_waits_while_the_buffer_is_full(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server)

    async def write() -> None:
        async with AsyncWriter(
            shared_server.url, stream, "one", batch_bytes=2_000, buffer_bytes=4_000
        ) as writer:
            for number in range(500):
                await writer.write(str(number).rjust(100), key=str(number))
                assert writer.unstored <= 40
            await writer.flush()
            assert writer.unstored == 0

    asyncio.run(write())
    assert _numbers(shared_server, stream) == list(range(500))


def test_nothing_is_lost_or_doubled_when_the_server_is_killed(server: ServerProcess) -> None:
    stream = _stream(server)
    with Writer(server.url, stream, "steady") as writer:
        for number in range(3_000):
            writer.write(str(number), key=f"key-{number}", event_time=number)
            if number % 3 == 0:
                writer.note_time(number)
            if number in {500, 1_500, 2_500}:
                server.kill()
                server.start()
        writer.note_time(5_000)
    assert _numbers(server, stream) == list(range(3_000))
    assert writer.watermark == 5_000


def test_a_server_that_stays_away_stops_the_writer(server: ServerProcess) -> None:
    stream = _stream(server)
    writer = Writer(server.url, stream, "one", retry_for=timedelta(milliseconds=200))
    writer.open()
    server.kill()
    writer.write("1", key="k", event_time=1)
    writer.write("2", key="k", event_time=2)
    writer.note_time(2)
    with pytest.raises(EventsNotStoredError) as caught:
        writer.flush()
    assert (caught.value.count, caught.value.notes) == (2, 1)
    assert isinstance(caught.value.reason, ServiceUnreachableError)
    with pytest.raises(EventsNotStoredError):
        writer.write("3", key="k", event_time=3)
    with pytest.raises(EventsNotStoredError):
        writer.close()
    assert writer.unstored == 2


def test_a_writer_whose_name_is_taken_stops(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server)
    former = Writer(shared_server.url, stream, "same")
    former.open()
    with Writer(shared_server.url, stream, "same") as latter:
        assert latter.incarnation == 2
        former.write("1", key="k", event_time=1)
        with pytest.raises(WriterFencedError) as caught:
            former.flush()
        assert caught.value.incarnation == 2
        assert caught.value.__notes__ == ["1 events are not stored"]
        with pytest.raises(WriterFencedError):
            former.write("2", key="k", event_time=2)
        with pytest.raises(WriterFencedError):
            former.note_time(3)
        with pytest.raises(WriterFencedError):
            former.close()
        with pytest.raises(WriterFencedError):
            former.flush()
    assert _numbers(shared_server, stream) == []


def test_a_reporter_leaves_behind_the_notes_that_are_on_their_way(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server, log="external", segments=1)

    async def report() -> None:
        reporter = AsyncTimeReporter(shared_server.url, stream, "api")
        await reporter.note_time(1_000, {0: 1})
        notes = [
            asyncio.create_task(reporter.note_time(time, {0: time})) for time in (2_000, 3_000)
        ]
        await asyncio.sleep(0)  # both have begun; the second waits for the first
        leaving = asyncio.create_task(reporter.leave())
        await asyncio.gather(*notes, leaving)
        with pytest.raises(WriterClosedError):
            await reporter.note_time(4_000, {0: 4_000})

    asyncio.run(report())
    assert _states(shared_server, stream) == {"api": "left"}


def test_a_fenced_writer_wakes_whoever_waits_for_room(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server)
    former = Writer(shared_server.url, stream, "same", buffer_bytes=1)
    former.open()
    with Writer(shared_server.url, stream, "same"):
        former.write("1", key="k", event_time=1)
        with pytest.raises(WriterFencedError):
            former.write("2", key="k", event_time=2)
    with pytest.raises(WriterFencedError):
        former.leave()


def test_a_refused_note_stops_the_writer_but_not_the_events_before_it(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server)
    writer = Writer(shared_server.url, stream, "microseconds")
    writer.write("1", key="k", event_time=1)
    writer.note_time(1_700_000_000_000_000)
    with pytest.raises(TimeInFutureError) as caught:
        writer.flush()
    assert caught.value.time == 1_700_000_000_000_000
    with pytest.raises(TimeInFutureError):
        writer.write("2", key="k", event_time=2)
    with pytest.raises(TimeInFutureError):
        writer.close()
    assert _numbers(shared_server, stream) == [1]


def test_ingestion_time_advances_while_nothing_is_written(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server)
    with (
        Writer(shared_server.url, stream, "now", automatically_note_time=True) as writer,
        StreamClient(shared_server.url, stream) as client,
    ):
        writer.write("1", key="k")
        (first, *_) = client.marks(wait_ms=5_000)
        (second, *_) = client.marks(after=first.revision, wait_ms=5_000)
    assert second.lower > first.lower


def test_streams_that_cannot_be_written_to_say_why(shared_server: ServerProcess) -> None:
    external, sealed = _stream(shared_server, log="external"), _stream(shared_server)
    httpx.post(f"{shared_server.url}/v1/streams/{sealed}/seal").raise_for_status()
    expected = {
        "writers/none": UnknownStreamError,
        external: LogIsExternalError,
        sealed: StreamSealedError,
    }
    for stream, error in expected.items():
        writer = Writer(shared_server.url, stream, "one")
        with pytest.raises(error):
            writer.open()
        writer.close()


def test_a_stream_that_was_replaced_gets_nothing_of_the_old_writer(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server)
    writer = Writer(shared_server.url, stream, "one")
    writer.open()
    path = f"{shared_server.url}/v1/streams/{stream}"
    httpx.delete(path).raise_for_status()
    httpx.put(path, json={"segments": 2}).raise_for_status()
    writer.write("1", key="k", event_time=1)
    with pytest.raises(EventsNotStoredError) as caught:
        writer.close()
    assert caught.value.count == 1
    assert isinstance(caught.value.reason, StreamReplacedError)
    assert _numbers(shared_server, stream) == []


def test_what_cannot_be_written_is_refused_at_once(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server)
    with Writer(shared_server.url, stream, "one") as writer:
        with pytest.raises(TypeError, match="pass bytes or str"):
            writer.write(7, key="k")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="it routes the event"):
            writer.write("7", key=7)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="integer milliseconds"):
            writer.write("7", key="k", event_time=1.5)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="are these microseconds"):
            writer.write("7", key="k", event_time=1_704_067_200_000_000)
        with pytest.raises(ValueError, match="no time zone"):
            writer.note_time(datetime(2024, 1, 1))  # noqa: DTZ001 (that is the point)
        writer.write("8", key="k", event_time=1_704_067_200_000)
    assert _numbers(shared_server, stream) == [8]


def test_a_process_that_ends_without_closing_its_writer_says_so(
    shared_server: ServerProcess,
) -> None:
    stream = _stream(shared_server)
    script = f"""
from datetime import timedelta
from writer_client import Writer
writer = Writer({shared_server.url!r}, {stream!r}, "one", linger=timedelta(hours=1))
writer.write("1", key="k", event_time=1)
"""
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "writer 'one' was never closed: 1 events may not be stored" in said.stderr


def test_a_reporter_notes_time_for_a_log_of_its_own(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server, log="external", segments=1, max_segments=3)
    with TimeReporter(shared_server.url, stream, "api") as reporter:
        reporter.note_time(1_000, {0: 10})
        reporter.note_time(2_000, {2: 5})
        with pytest.raises(InvalidTimeError):
            reporter.note_time(1_999, {0: 11})
        assert reporter.watermark == 2_000
    assert _marks(shared_server, stream) == [(1_000, {0: 10}), (2_000, {0: 10, 2: 5})]
    assert _states(shared_server, stream) == {"api": "active"}
    with pytest.raises(WriterClosedError):
        reporter.note_time(3_000, {0: 12})


def test_four_lines_of_shell_are_a_producer(shared_server: ServerProcess) -> None:
    script = f"""
S={shared_server.url}/v1/streams/writers/shell
curl -fsS -X PUT $S --json '{{"segments": 2}}' -o /dev/null
echo '{{"key": "taxi-3", "event_time": 1700000000000, "value": "hello"}}' | curl -fsS "$S/events?writer=gateway-7&note_time=1700000000000" -H 'content-type: application/x-ndjson' --data-binary @- -o /dev/null
curl -fsS $S/watermark
"""
    said = subprocess.run(
        ["bash", "-e"], input=script, capture_output=True, text=True, check=True
    )
    assert '"watermark":1700000000000' in said.stdout.replace(" ", "")
    assert sorted(_values(shared_server, "writers/shell")) == [[], ["hello"]]


def test_what_looks_wrong_is_logged_once(
    shared_server: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    written, reported = _stream(shared_server), _stream(shared_server, log="external")
    seconds, in_2100 = 1_704_110_400, 4_102_444_800_000
    with Writer(shared_server.url, written, "api-1") as writer:
        writer.note_time(seconds)
        writer.flush()
        writer.note_time(seconds + 1)
        writer.write("1", key="k", event_time=seconds)
        writer.write_many(["2", "3"], keys=["k", "k"], event_times=[seconds, seconds + 1])
        assert writer.late_events == 2
        for later in range(2):
            writer.flush()  # an answer has one hint
            writer.write("4", key="k", event_time=in_2100 + later)
    with TimeReporter(shared_server.url, reported, "api-2") as reporter:
        for _ in range(2):
            with pytest.raises(TimeInFutureError):
                reporter.note_time(in_2100, {0: 1})
    assert [message.partition(" is ")[0] for message in caplog.messages] == [
        f"writer 'api-1' of {written}: time {seconds} lies in early 1970: are these seconds? Times are milliseconds",
        f"writer 'api-1' of {written}: event time {seconds}",
        f"writer 'api-1' of {written}: event time {in_2100}",
        f"writer 'api-2' of {reported}: time 2100-01-01T00:00:00.000Z",
    ]
