"""Writers over a real server: nothing lost, nothing twice, and notes that mean what they say."""

import os
import signal
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import httpx
import pytest

from reader_client import StreamClient
from tests.server import ServerProcess
from tidegauge.errors import InvalidTimeError
from writer_client import (
    ForkedClientError,
    TimeReporter,
    Writer,
    WriterClosedError,
    WriterFencedError,
)

_NUMBERS = count(1)


def _stream(server: ServerProcess, **settings: object) -> str:
    name = f"writers/stream-{next(_NUMBERS)}"
    wanted = {"segments": 2, "mark_interval_ms": 0, "mark_resolution_ms": 0} | settings
    answer = httpx.put(f"{server.url}/v1/streams/{name}", json=wanted)
    answer.raise_for_status()
    return name


def _values(server: ServerProcess, stream: str) -> list[int]:
    with StreamClient(server.url, stream) as client:
        return sorted(
            int(value)
            for segment, end in client.tail().tail.items()
            for events in client.read(segment, 0, end)
            for value in events.batch.column("value").to_pylist()
        )


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


def test_closing_stays_a_member_and_leaving_does_not(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server)
    with Writer(shared_server.url, stream, "stays") as writer:
        writer.note_time(1_000)
    leaver = Writer(shared_server.url, stream, "leaves")
    leaver.note_time(2_000)
    leaver.leave()
    path = f"{shared_server.url}/v1/streams/{stream}/writers"
    states = {one["writer"]: one["state"] for one in httpx.get(path).json()["writers"]}
    assert states == {"leaves": "left", "stays": "behind"}
    with pytest.raises(WriterClosedError):
        leaver.write("late", key="k")


def test_nothing_is_lost_or_doubled_when_the_server_is_killed(server: ServerProcess) -> None:
    stream = _stream(server)
    with Writer(server.url, stream, "steady") as writer:
        for number in range(3_000):
            writer.write(str(number), key=f"key-{number}", event_time=number)
            if number in {500, 1_500, 2_500}:
                server.kill()
                server.start()
        writer.note_time(5_000)
    assert _values(server, stream) == list(range(3_000))


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
        with pytest.raises(WriterFencedError):
            former.write("2", key="k", event_time=2)
        with pytest.raises(WriterFencedError):
            former.close()


def test_a_time_that_goes_back_is_refused_by_the_next_call(
    shared_server: ServerProcess,
) -> None:
    writer = Writer(shared_server.url, _stream(shared_server), "back")
    writer.note_time(2_000)
    writer.note_time(1_000)
    with pytest.raises(InvalidTimeError):
        writer.flush()
    with pytest.raises(InvalidTimeError):
        writer.close()


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


def test_a_forked_child_gets_an_error(shared_server: ServerProcess, tmp_path: Path) -> None:
    with Writer(shared_server.url, _stream(shared_server), "parent") as writer:
        writer.write("1", key="k", event_time=1)
        said = tmp_path / "said"
        child = os.fork()
        if child == 0:
            try:
                writer.write("2", key="k", event_time=2)
            except ForkedClientError as error:
                said.write_text(str(error))
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        writer.flush()
    assert "make one in the child" in said.read_text()


def test_a_reporter_notes_time_for_a_log_of_its_own(shared_server: ServerProcess) -> None:
    stream = _stream(shared_server, log="external", segments=1, max_segments=3)
    with TimeReporter(shared_server.url, stream, "api") as reporter:
        reporter.note_time(1_000, {0: 10})
        reporter.note_time(2_000, {2: 5})
    with StreamClient(shared_server.url, stream) as client:
        marks = client.marks()
    assert [(mark.lower, dict(mark.cut)) for mark in marks] == [
        (1_000, {0: 10}),
        (2_000, {0: 10, 2: 5}),
    ]
