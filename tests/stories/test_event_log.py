"""The embedded event log over HTTP: appends, reads, refusals."""

import threading
import time

import pyarrow as pa
import pytest

from tests.server import ServerProcess
from tests.service.log_api import LogApi, arrow_of, numbered, stream_of
from tidegauge.wire.columns import EVENT_SCHEMA, STORED_SCHEMA


def test_events_come_back_as_they_were_appended(log: LogApi) -> None:
    log.create()
    log.register()
    events = [("a", 1_000, b"\x00\xff"), ("", None, b""), ("ü", -5, b"x" * 3_000)]
    answer = log.append(events, 1)
    assert (answer["next_offset"], answer["sequence"], answer["duplicate"]) == (3, 1, False)
    assert answer["watermark"] is None
    assert answer["final"] is False
    assert log.events() == events
    assert log.tail() == {"0": 3}


def test_an_append_is_stored_once_in_turn_and_by_the_newest_incarnation(log: LogApi) -> None:
    log.create()
    log.register()
    log.append([("a", 1, b"1")], 1)
    log.append([("a", 2, b"2")], 2)
    again = log.append([("a", 1, b"1")], 1)
    assert (again["next_offset"], again["sequence"], again["duplicate"]) == (2, 2, True)
    gap = log.append([("a", 4, b"4")], 4)
    assert (gap["status"], gap["code"], gap["expected_sequence"]) == (409, "sequence_gap", 3)
    assert log.register()["position"] == {"0": 2}
    zombie = log.append([("a", 3, b"3")], 3, incarnation=1)
    assert (zombie["status"], zombie["code"], zombie["incarnation"]) == (
        409,
        "writer_fenced",
        2,
    )
    assert log.append([("a", 5, b"5")], 1, incarnation=2)["duplicate"] is False
    assert log.events() == [("a", 1, b"1"), ("a", 2, b"2"), ("a", 5, b"5")]


def test_an_append_under_a_newer_incarnation_fences_the_older_one(log: LogApi) -> None:
    log.create()
    log.register()
    assert log.append([("a", 1, b"1")], 1, incarnation=3)["next_offset"] == 1
    zombie = log.append([("a", 2, b"2")], 1, incarnation=1)
    assert (zombie["code"], zombie["incarnation"]) == ("writer_fenced", 3)
    assert log.register()["incarnation"] == 4


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
    sealed = log.json(log.client.post(f"{log.path}/seal"))
    assert sealed["mark"]["cut"] == {"0": 1}
    assert log.append([("a", 2, b"2")], 2)["code"] == "stream_sealed"
    assert log.append([("a", 1, b"1")], 1)["duplicate"] is True
    assert log.append_lines('{"key": "a", "value": "x"}')["code"] == "stream_sealed"
    assert log.events() == [("a", 1, b"1")]


def test_an_external_stream_has_no_events(log: LogApi) -> None:
    log.create(log="external")
    log.register()
    assert log.append([("a", 1, b"1")], 1)["code"] == "log_is_external"
    assert log.append_lines('{"key": "a", "value": "x"}')["code"] == "log_is_external"
    assert log.refused_read()["code"] == "log_is_external"


@pytest.mark.parametrize(
    ("table", "field"),
    [
        (pa.table({"key": ["a"], "value": [b"x"]}), "body"),
        (pa.table({"key": ["a"], "event_time": [1.0], "value": [b"x"]}), "event_time"),
        (pa.table({"key": [1], "event_time": [1], "value": [b"x"]}), "key"),
        (pa.table({"key": ["a"], "event_time": [1], "value": [2]}), "value"),
        (pa.table({"key": [None, "a"], "event_time": [1, 1], "value": [b"", b""]}), "key"),
        (pa.table({"key": ["a", "a"], "event_time": [1, 1], "value": [b"", None]}), "value"),
        (
            pa.table(
                {
                    "key": ["a"],
                    "event_time": pa.array([1], pa.timestamp("us")),
                    "value": [b"x"],
                }
            ),
            "event_time",
        ),
    ],
)
def test_columns_that_are_not_those_of_an_event_are_refused(
    log: LogApi, table: pa.Table, field: str
) -> None:
    log.create()
    log.register()
    answer = log.append_bytes(stream_of(table), 1)
    assert (answer["status"], answer["code"]) == (422, "invalid_request")
    assert [error["field"] for error in answer["errors"]] == [field]


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
    log.append_bytes(stream_of(table), 1)
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


def test_a_body_that_is_no_arrow_stream_is_refused(log: LogApi) -> None:
    log.create()
    log.register()
    assert log.append_bytes(b"nonsense", 1)["code"] == "invalid_request"
    assert log.append_bytes(b"", 1)["code"] == "invalid_request"
    whole = arrow_of(numbered(0, 100))
    assert log.append_bytes(whole[:-200], 1)["code"] == "invalid_request"
    wrong = log.append_bytes(whole, 1, content_type="application/json")
    assert (wrong["status"], wrong["code"]) == (415, "unsupported_media_type")
    assert log.tail() == {"0": 0}


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_compressed_body_is_refused_however_large_it_would_become(
    log: LogApi, compression: str
) -> None:
    log.create()
    log.register()
    values = pa.array([b"0" * 1_000] * 100_000)
    table = pa.table({"key": ["k"] * 100_000, "event_time": [1] * 100_000, "value": values})
    answer = log.append_bytes(stream_of(table, compression), 1)
    assert answer["detail"] == "body: is compressed; send it uncompressed"
    assert log.tail() == {"0": 0}
    assert log.append_bytes(stream_of(table.slice(0, 10)), 1)["next_offset"] == 10


def test_a_body_compressed_as_before_arrow_1_is_refused(log: LogApi) -> None:
    log.create()
    log.register()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, EVENT_SCHEMA, options=options) as writer:
        batch = pa.RecordBatch.from_pylist([], EVENT_SCHEMA)
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "lz4"})
    answer = log.append_bytes(sink.getvalue().to_pybytes(), 1)
    assert answer["detail"] == "body: is compressed; send it uncompressed"


def test_a_body_beyond_the_limit_is_refused(log: LogApi) -> None:
    log.create()
    answer = log.append_lines("x" * (16 * 2**20 + 1))
    assert (answer["status"], answer["code"]) == (413, "body_too_large")


def test_a_large_append_is_read_back_in_chunks(log: LogApi) -> None:
    log.create()
    log.register()
    log.append(numbered(0, 150_000), 1)
    body = log.read(start=100_000, end=100_001)
    assert body.first_offset == 65_536
    assert body.table.num_rows == 65_536
    assert log.events() == numbered(0, 150_000)


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
    log: LogApi, shared_server: ServerProcess
) -> None:
    log.create(segments=3)
    log.register()
    seen: dict[int, list[int]] = {}

    def read(segment: int) -> None:
        with LogApi(shared_server.url, log.path.removeprefix("/v1/streams/")) as other:
            body = other.read(segment, start=0, wait_ms=30_000)
            seen[segment] = body.table["event_time"].to_pylist()

    later, sooner = (threading.Thread(target=read, args=(segment,)) for segment in (1, 0))
    for waiting, one in enumerate((later, sooner), start=1):
        one.start()
        shared_server.wait_for_waiting(waiting)
    log.append(numbered(5, 1, key="k2"), 1, segment=0)
    sooner.join()
    assert later.is_alive()  # though its time is over before that of the other
    log.append(numbered(6, 1, key="k0"), 1, segment=1)
    later.join()
    assert seen == {0: [5], 1: [6]}


def test_a_read_at_the_tail_ends_empty_when_the_time_is_over(log: LogApi) -> None:
    log.create()
    begun = time.monotonic()
    assert log.read(start=0, wait_ms=200).table.num_rows == 0
    assert time.monotonic() - begun > 0.19
