"""The embedded event log over HTTP: appends, reads, refusals."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from tests.patience import wait_until
from tests.service.in_process import Service
from tests.service.log_api import Event, LogApi, arrow_of, events_of, numbered, stream_of
from tidegauge.wire.columns import EVENT_SCHEMA, STORED_SCHEMA


def test_a_writer_appends_only_once_the_stream_knows_it(log: LogApi) -> None:
    log.create()
    assert log.append([("a", 1, b"1")], 1)["code"] == "unknown_writer"
    log.note_time(0)
    assert log.append([("a", 1, b"1")], 1, incarnation=None)["next_offset"] == 1
    log.register()
    refused = log.append([("a", 1, b"1")], 1, incarnation=None)
    assert (refused["code"], refused["incarnation"]) == ("incarnation_required", 1)


def test_a_sealed_stream_takes_no_events_but_answers_repeated_ones(log: LogApi) -> None:
    log.create()
    log.register()
    log.append([("a", 1, b"1")], 1)
    assert log.post("seal")["mark"]["cut"] == {"0": 1}
    assert log.append([("a", 2, b"2")], 2)["code"] == "stream_sealed"
    assert log.append([("a", 1, b"1")], 1)["duplicate"] is True
    assert log.append_lines('{"key": "a", "value": "x"}')["code"] == "stream_sealed"
    scaled = log.client.post(f"{log.path}/scale", json={"seal": [0], "ranges": [[0, 1]]})
    assert log.json(scaled)["code"] == "stream_sealed"
    assert log.events() == [("a", 1, b"1")]


def _columns(**columns: Any) -> bytes:
    """Encode an event whose columns are as they should be, but for these."""
    table = pa.table({"key": ["a"], "event_time": [1], "value": [b"x"]} | columns)
    return stream_of(table)


FLAWED = {
    "a column is missing": (stream_of(pa.table({"key": ["a"], "value": [b"x"]})), "body"),
    "a time is a float": (_columns(event_time=[1.0]), "event_time"),
    "a time is a timestamp": (
        _columns(event_time=pa.array([1], pa.timestamp("us"))),
        "event_time",
    ),
    "a key is a number": (_columns(key=[1]), "key"),
    "a key is null": (_columns(key=pa.array([None], pa.string())), "key"),
    "a value is a number": (_columns(value=[2]), "value"),
    "a value is null": (_columns(value=pa.array([None], pa.binary())), "value"),
    "it is no Arrow": (b"nonsense", "body"),
    "it is empty": (b"", "body"),
    "it is cut off": (arrow_of(numbered(0, 100))[:-200], "body"),
}


@pytest.mark.parametrize("flaw", FLAWED)
def test_a_body_that_is_no_stream_of_events_is_refused(log: LogApi, flaw: str) -> None:
    log.create()
    log.register()
    body, field = FLAWED[flaw]
    answer = log.append(body, 1)
    assert (answer["status"], answer["code"]) == (422, "invalid_request")
    assert [error["field"] for error in answer["errors"]] == [field]
    assert log.tail() == {"0": 0}


def _compressed(how: str) -> bytes:
    """Compress a hundred megabytes, or an empty stream in the form that was used before Arrow 1.0."""
    if how in {"lz4", "zstd"}:
        values = [b"0" * 1_000] * 100_000
        return stream_of(
            pa.table({"key": ["k"] * 100_000, "event_time": [1] * 100_000, "value": values}),
            how,
        )
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, EVENT_SCHEMA, options=options) as writer:
        batch = pa.RecordBatch.from_pylist([], EVENT_SCHEMA)
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "lz4"})
    return bytes(sink.getvalue())


@pytest.mark.parametrize("how", ["lz4", "zstd", "before 1.0"])
def test_a_compressed_body_is_refused_however_large_it_would_become(
    log: LogApi, how: str
) -> None:
    log.create()
    log.register()
    answer = log.append(_compressed(how), 1)
    assert answer["detail"] == "body: is compressed; send it uncompressed"
    assert log.tail() == {"0": 0}


def test_wider_text_and_narrower_integers_are_taken(log: LogApi) -> None:
    log.create()
    log.register()
    table = pa.table(
        {
            "key": pa.array(["a"], pa.large_string()),
            "event_time": pa.array([7], pa.int32()),
            "value": pa.array(["text"], pa.string()),
        }
    )
    log.append(stream_of(table), 1)
    assert log.events() == [("a", 7, b"text")]


def test_events_of_a_key_that_another_segment_owns_are_refused(log: LogApi) -> None:
    log.create(segments=2)
    log.register()
    answer = log.append([("a", 1, b"1"), ("b", 2, b"2")], 1, segment=0)
    assert (answer["status"], answer["code"]) == (422, "invalid_request")
    assert answer["errors"][0]["field"] == "key"
    assert answer["errors"][0]["message"].startswith("'b' belongs to segment 1, not 0;")
    assert log.tail() == {"0": 0, "1": 0}
    assert log.append([("a", 1, b"1")], 1, segment=0)["next_offset"] == 1
    assert log.append([("b", 2, b"2")], 1, segment=1)["next_offset"] == 1


def test_a_read_answers_whole_chunks_and_says_where_they_begin(log: LogApi) -> None:
    log.create()
    log.register()
    for sequence in range(1, 5):
        log.append(numbered(10 * sequence - 10, 10), sequence)
    body = log.read(start=15, end=21)
    assert body.first_offset == 10
    assert body.table["event_time"].to_pylist() == list(range(10, 30))
    assert log.read(start=15, end=15).table.num_rows == 0
    empty = log.read(start=40)
    assert (empty.first_offset, empty.table.num_rows) == (40, 0)
    assert empty.table.schema == STORED_SCHEMA


def test_a_read_beyond_the_tail_is_refused_and_names_it(log: LogApi) -> None:
    log.create()
    log.register()
    log.append(numbered(0, 3), 1)
    answer = log.refused_read(start=4)
    assert (answer["status"], answer["code"]) == (422, "invalid_request")
    assert answer["errors"] == [{"field": "start", "message": "4 is beyond the tail, 3"}]
    assert log.refused_read(start=3, end=2)["errors"][0]["field"] == "end"
    assert log.refused_read(segment=7)["code"] == "unknown_segment"


def test_a_read_at_the_tail_wakes_with_its_event_while_others_wait_on(
    log: LogApi, service: Service
) -> None:
    log.create(segments=3)
    log.register()

    def read(segment: int) -> list[Event]:
        return events_of(log.read(segment, start=0, wait_ms=30_000).table)

    with ThreadPoolExecutor() as threads:
        later, sooner = threads.submit(read, 1), threads.submit(read, 0)
        wait_until(lambda: len(service.app.parts.waiting) == 2)
        log.append(numbered(5, 1, key="k2"), 1, segment=0)
        assert sooner.result() == numbered(5, 1, key="k2")
        assert not later.done()
        log.append(numbered(6, 1, key="k0"), 1, segment=1)
        assert later.result() == numbered(6, 1, key="k0")


def test_a_read_at_the_tail_ends_empty_when_the_time_is_over(log: LogApi) -> None:
    log.create()
    begun = time.monotonic()
    assert log.read(start=0, wait_ms=200).table.num_rows == 0
    assert time.monotonic() - begun > 0.19


def test_events_say_when_they_were_appended_and_by_whom(log: LogApi) -> None:
    created_ms = log.create()["created_ms"]
    log.register("gate-7")
    log.append(numbered(0, 1), 1, writer="gate-7")
    log.append_lines('{"key": "a", "value": "x"}\n', writer="gate-8")
    log.append_lines('{"key": "a", "value": "x"}\n')
    with log.group() as group:
        group.create([log.name])
    with log.reader() as reader:
        events = reader.read_next()
    assert [event.writer for event in events] == ["gate-7", "gate-8", None]
    times: list[Any] = [event.append_time for event in events]
    assert created_ms <= times[0] <= times[1] <= times[2] < created_ms + 600_000


def test_a_large_append_is_read_back_in_chunks(log: LogApi) -> None:
    log.create()
    log.register()
    log.append(numbered(0, 150_000), 1)
    body = log.read(start=100_000, end=100_001)
    assert body.first_offset == 65_536
    assert body.table.num_rows == 65_536
    assert log.events() == numbered(0, 150_000)
