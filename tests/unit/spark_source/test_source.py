"""The source's batches, planned and read in this process as Spark asks for them."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest

from reader_client import Reader, ReaderGroup, StreamClient, TimeWindow
from spark_source import TidegaugeDataSource
from spark_source.compatibility import ReadLimit
from spark_source.data_source import StreamReader
from spark_source.errors import DataLossError, InvalidOptionError
from spark_source.logs.choice import reader_of
from spark_source.options.load import read_options
from tests.patience import wait_until
from tests.service.in_process import Service
from tests.service.log_api import LogApi
from tests.spark.feed import DAY, Feed
from tests.spark.played import Played, read_batch
from tests.tokens import Tokens
from tests.unit.conftest import Serve
from tidegauge.errors import (
    NotCompleteYetError,
    ReaderFencedError,
    StreamReplacedError,
    TidegaugeError,
)
from writer_client import Writer

_NUMBERS = count(1)


@pytest.fixture
def feed(service: Service) -> Iterator[Feed]:
    name = f"source/stream-{next(_NUMBERS)}"
    with service.reached_by_clients(), Feed(service.url, name, transport=service) as feed:
        feed.create()
        yield feed


def test_a_batch_read_of_a_slice_has_its_rows_and_says_what_was_late(feed: Feed) -> None:
    feed.write(1_000, 2_000)
    feed.note(3_000)
    feed.write(2_500, 3_000, 4_500)
    feed.note(5_000)
    columns = ("offset", "late", "late_by", "late_below", "watermark")
    assert read_batch(feed.options, *columns) == [
        (0, False, None, None, None),
        (1, False, None, None, None),
        (2, True, 500, None, None),
        (3, False, None, None, None),
        (4, False, None, None, None),
    ]


@pytest.mark.parametrize(
    ("slice_", "offsets"),
    [
        ({"startingTime": str(DAY + 2_000), "endingTime": str(DAY + 4_000)}, [1, 2, 3]),
        ({"startingCut": "0:3"}, [3, 4]),
        ({"endingCut": "0:2"}, [0, 1]),
        ({"startingOffsets": "latest"}, []),
        ({"endingTime": str(DAY + 6_000), "allowIncomplete": "true"}, [0, 1, 2, 3, 4]),
    ],
)
def test_a_batch_read_takes_a_slice(
    feed: Feed, slice_: dict[str, str], offsets: list[int]
) -> None:
    feed.write(1_000, 2_000)
    feed.note(3_000)
    feed.write(2_500, 3_000, 4_500)
    feed.note(5_000)
    assert read_batch(feed.options | slice_, "offset") == [(offset,) for offset in offsets]


def test_a_slice_that_is_not_complete_yet_is_refused(feed: Feed) -> None:
    feed.write(1_000, 2_000)
    feed.note(1_500)
    options = feed.options | {"endingTime": str(DAY + 2_000)}
    with pytest.raises(NotCompleteYetError):
        read_batch(options, "offset")
    with Played(options) as query:
        for _ in range(2):  # nothing begins at the second question either
            with pytest.raises(NotCompleteYetError):
                query.step()


def test_how_far_a_query_is_behind_is_reported_in_time_and_rows(feed: Feed) -> None:
    feed.write(1_000, 2_000)
    feed.note(3_000)
    feed.write(4_000, 5_000, 6_000)
    feed.note(7_000)
    reports = []
    with Played(feed.options | {"maxRowsPerTrigger": "2", "admission": "marks"}) as query:
        while query.step():
            reports.append(query.reader.reportLatestOffset())
    shown = ("stream", "reader_group", "lag_ms", "backlog_rows")
    assert [tuple(report[name] for name in shown) for report in reports if report] == [
        (feed.stream, None, 4_000, 3),
        (feed.stream, None, 4_000, 1),
        (feed.stream, None, 0, 0),
    ]


def test_rows_between_the_first_plan_and_a_crash_are_read_by_the_replay(feed: Feed) -> None:
    """Spark logs the end of the first batch, and asks anew for its start when it repeats it."""
    feed.write(*range(10))
    query = Played(feed.options | {"startingOffsets": "latest"}, "offset")
    with query:
        feed.write(*range(10))
        query.until(lambda: True)
        query.crash(0)
    feed.write(*range(10))
    with query:
        assert query.step()
        assert query.rows == [(offset,) for offset in range(10, 20)]
        query.read()
        assert query.rows == [(offset,) for offset in range(10, 30)]


def test_a_mark_that_comes_after_the_first_plan_makes_no_row_late_in_its_replay(
    feed: Feed,
) -> None:
    feed.write(1_000)
    query = Played(feed.options, "offset", "late")
    with query:
        query.read()
    feed.note(5_000, position={0: 0})
    query.crash(0)
    with query:
        query.until_read(5_000)
    assert query.rows == [(0, False)]


def test_batches_by_event_time_begin_before_the_first_mark_as_they_did_live(
    feed: Feed,
) -> None:
    feed.note(1_000)
    assert _reader(feed).initialOffset()["bound"] == DAY + 1_000
    paced = _reader(feed, admission="marks", maxEventTimePerTrigger="1 second")
    start = paced.initialOffset()
    assert (start["bound"], start["revision"]) == (None, 0)
    end = paced.latestOffset(start, ReadLimit())
    assert (end["bound"], end["revision"]) == (DAY + 1_000, 1)
    paced.stop()


def test_a_worker_process_keeps_one_connection_to_each_of_many_streams() -> None:
    given = [{"url": "http://here", "stream": f"shop/{number}"} for number in range(9)]
    readers = [reader_of(read_options(one), "id") for one in given]
    assert [reader_of(read_options(one), "id") for one in given] == readers


def _reader(feed: Feed, **options: str) -> StreamReader:
    return StreamReader(read_options(feed.options | options))


def test_a_batch_that_is_repeated_is_as_it_was_at_each_point_of_a_crash(feed: Feed) -> None:
    each_mark = {"admission": "marks", "maxEventTimePerTrigger": "1 ms"}
    query = Played(feed.options | each_mark, "offset", "late", "watermark")
    with query:
        for second in range(1, 6):
            feed.write(second * 1_000, second * 1_000 - 700)
            feed.note(second * 1_000 + 500)
            query.until_read(second * 1_000 + 500)
    whole = dict(query.batches)
    for number in reversed(range(len(whole))):
        query.crash(number)
        with query:
            query.until_read(5_500)
        with_rows = {number: rows for number, rows in query.batches.items() if rows}
        assert with_rows == {number: rows for number, rows in whole.items() if rows}


def test_a_row_that_was_late_live_may_be_on_time_in_a_backfill(feed: Feed) -> None:
    live = Played(feed.options, "offset", "late")
    with live:
        feed.write(1_000)
        feed.note(10_000)
        live.until_read(10_000)
        feed.write(2_000, 12_000)
        feed.note(20_000)
        live.until_read(20_000)
    assert live.rows == [(0, False), (1, True), (2, False)]
    with Played(feed.options, "offset", "late") as replayed:
        replayed.until_read(20_000)
    assert replayed.rows == [(0, False), (1, False), (2, False)]


def test_a_broken_promise_has_a_name_and_a_measure(feed: Feed) -> None:
    """Who has left, and who has come back, may promise anew."""
    names = ["honest", "dishonest", "expired", "restarted"]
    query = Played(feed.options, "writer", "event_time", "late_by")
    with query, StreamClient(feed.url, feed.stream) as client:
        writers = {name: Writer(feed.url, feed.stream, name) for name in names}
        for writer in writers.values():
            _write(writer, 1_000)
        for writer in writers.values():
            writer.note_time(DAY + 5_000)
            writer.flush()
        query.until_read(5_000)
        writers["restarted"].close()
        writers["restarted"] = Writer(feed.url, feed.stream, "restarted")
        for name in ("honest", "dishonest", "restarted"):
            _write(writers[name], 6_000)
            writers[name].note_time(DAY + 10_000)
            writers[name].flush()
        client.expire("expired")
        query.until_read(10_000)
        _write(writers["dishonest"], 6_500, 9_999)
        _write(writers["expired"], 5_500)
        _write(writers["honest"], 10_000)
        _write(writers["restarted"], 12_000)
        feed.write(9_000)  # by nobody
        query.until_rows(13)
        for writer in writers.values():
            writer.close()
    on_time = [(name, at) for name, at, late_by in query.rows if late_by is None]
    assert sorted(on_time) == [
        *(("dishonest", at) for at in (1_000, 6_000)),
        ("expired", 1_000),
        *(("honest", at) for at in (1_000, 6_000, 10_000)),
        *(("restarted", at) for at in (1_000, 6_000, 12_000)),
    ]
    assert {row for row in query.rows if row[2] is not None} == {
        ("dishonest", 6_500, 3_500),
        ("dishonest", 9_999, 1),
        ("expired", 5_500, 4_500),
        (None, 9_000, 1_000),
    }


def _write(writer: Writer, *times: int) -> None:
    for at in times:
        writer.write(b"v", key="k", event_time=DAY + at)
    writer.flush()


_LOSES: dict[str, str] = {"failOnDataLoss": "false"}


def test_a_checkpoint_that_needs_truncated_events_fails_unless_it_may_lose_them(
    feed: Feed,
) -> None:
    feed.write(1_000, 2_000)
    query, careless = (Played(feed.options | how, "offset") for how in ({}, _LOSES))
    for reading in (query, careless):
        with reading:
            reading.until_rows(2)
    feed.write(3_000, 4_000, 5_000)
    with StreamClient(feed.url, feed.stream) as client:
        client.split(0)
        client.truncate(cut={0: 4})
    with (
        query,
        pytest.raises(
            DataLossError, match="needs segment 0 from offset 2, and the log continues at 4"
        ),
    ):
        query.read()
    with careless:
        careless.until_rows(3)
    assert careless.rows == [(0,), (1,), (4,)]
    assert read_batch(feed.options, "offset") == [(4,)]


def test_a_stream_created_again_under_a_checkpoint_is_refused(feed: Feed) -> None:
    feed.write(1_000)
    query = Played(feed.options, "offset")
    with query:
        query.until_rows(1)
    feed.delete()
    feed.create()
    with query, pytest.raises(StreamReplacedError, match="deleted and created again"):
        query.read()


@pytest.fixture
def grouped(feed: Feed) -> Callable[[], Played]:
    """Queries of one reader group."""
    return lambda: Played(feed.options | {"readerGroup": "counts"}, "offset")


@pytest.fixture
def group(feed: Feed) -> Iterator[ReaderGroup]:
    with ReaderGroup(feed.url, "source/counts") as group:
        yield group
        group.delete()


def test_commits_advance_the_group_and_its_window(
    feed: Feed, grouped: Callable[[], Played], group: ReaderGroup
) -> None:
    feed.write(1_000, 2_000)
    feed.note(3_000)
    with grouped() as query:
        query.until_read(3_000)
        wait_until(lambda: group.position(feed.stream) == {0: 2})
        assert group.get_time_window(feed.stream) == TimeWindow(DAY + 3_000, None)
        assert list(group.describe().state.readers) == ["spark"]


def test_a_query_without_a_checkpoint_starts_where_the_group_stands(
    feed: Feed, grouped: Callable[[], Played], group: ReaderGroup
) -> None:
    feed.write(1_000, 2_000, 3_000)
    group.create([feed.stream], start_cut={feed.stream: {0: 2}})
    with grouped() as query:
        query.until_rows(1)
    assert query.rows == [(2,)]


def test_the_checkpoint_wins_over_the_group_back_too(
    feed: Feed, grouped: Callable[[], Played], group: ReaderGroup
) -> None:
    query = grouped()
    feed.write(1_000, 2_000)
    with query:
        query.until_rows(2)
        query.read()
    feed.write(4_000, 5_000)
    with Reader(feed.url, "source/counts", "stranger") as stranger:

        def is_read() -> bool:
            stranger.read_next(wait_ms=0)
            return group.position(feed.stream) == {0: 4}

        wait_until(is_read)
        with query:
            query.until_rows(4)
            wait_until(lambda: _is_fenced(stranger))
        assert query.rows == [(0,), (1,), (2,), (3,)]
        with pytest.raises(ReaderFencedError):
            stranger.close()


def _is_fenced(reader: Reader) -> bool:
    try:
        reader.read_next(wait_ms=0)
    except ReaderFencedError:  # which its heartbeat was answered with
        return True
    return False


def test_of_two_queries_with_one_group_the_older_one_is_fenced_at_its_next_commit(
    feed: Feed, grouped: Callable[[], Played], group: ReaderGroup
) -> None:
    feed.write(1_000)
    with grouped() as older:
        older.until_rows(1)
        with grouped() as newer:
            assert newer.step()
            feed.write(3_000)
            with pytest.raises(ReaderFencedError):
                older.until_rows(3)
            newer.until_rows(1)
    assert newer.rows == [(1,)]


def test_a_group_of_another_stream_is_refused(feed: Feed, group: ReaderGroup) -> None:
    group.create([feed.stream])
    other = f"{feed.stream}-other"
    with StreamClient(feed.url, other) as client:
        client.create()
    options = {"url": feed.url, "stream": other, "readerGroup": "counts"}
    with pytest.raises(InvalidOptionError, match="option 'readerGroup'"):
        TidegaugeDataSource(options).schema()


def test_a_batch_read_takes_no_reader_group(feed: Feed) -> None:
    source = TidegaugeDataSource(feed.options | {"readerGroup": "counts"})
    with pytest.raises(InvalidOptionError, match="is for streaming reads; leave it out"):
        source.reader(source.schema())


_KEYS = [f"key-{number}" for number in range(6)]


def _write_span(feed: Feed, written: Counter[int], start: int) -> None:
    """Write five seconds, each key at other times, and note their end."""
    for place, key in enumerate(_KEYS):
        times = range(start + place, start + 5_000, 500 * (place + 1))
        feed.write(*times, key=key)
        written.update(times)
    feed.note(start + 5_000)


def _check(query: Played, written: Counter[int]) -> None:
    """Assert that each event is there once, and none below the bound of a batch before."""
    assert Counter(at for at, _, _ in query.rows) == written
    assert not any(late for _, _, late in query.rows)
    bound: int | None = None
    for rows, reached in zip(query.batches.values(), query.bounds, strict=True):
        assert all(bound is None or at >= bound for at, _, _ in rows)
        bound = reached


def test_a_query_goes_through_a_split_and_a_merge_and_a_restart(
    feed: Feed, group: ReaderGroup
) -> None:
    written: Counter[int] = Counter()
    options = feed.options | {"readerGroup": "counts"}
    query = Played(options, "event_time", "segment", "late")
    with StreamClient(feed.url, feed.stream) as client:
        with query:
            _write_span(feed, written, 0)
            query.until_read(5_000)
            client.split(0, 3)
            _write_span(feed, written, 5_000)
            query.until_read(10_000)
            client.merge([1, 2])
        _write_span(feed, written, 10_000)
        client.scale([3, 4], [(0, 0.2), (0.2, 1)])
        _write_span(feed, written, 15_000)
        client.split(6)
        with query:
            query.until_read(20_000)
            _write_span(feed, written, 20_000)
            query.until_read(25_000)
            wait_until(lambda: group.position(feed.stream) == client.tail().tail)
    _check(query, written)
    assert Counter(at for (at,) in read_batch(feed.options, "event_time")) == written
    assert {late for (late,) in read_batch(feed.options, "late")} == {False}


_YEAR_1 = -62_135_596_800_000


def test_a_batch_read_takes_times_before_1970(feed: Feed) -> None:
    times = [_YEAR_1, -2_000, 0, 1]
    feed.note(-63_000_000_000_000 - DAY)
    feed.write(*(at - DAY for at in times))
    rows = read_batch(feed.options, "event_time", "late")
    assert rows == [(at - DAY, False) for at in times]


@pytest.fixture
def right(service: Service) -> Iterator[dict[str, str]]:
    """The options of a load that is right; beside its stream there is an external one."""
    with (
        service.reached_by_clients(),
        httpx.Client(transport=service, base_url=service.url) as client,
    ):
        for name in ("embedded", "external"):
            settings = {"segments": 2, "log": name}
            client.put(f"/v1/streams/right/{name}", json=settings).raise_for_status()
        yield {"url": service.url, "stream": "right/embedded"}


@pytest.mark.parametrize(
    ("wrong", "refused"),
    [
        (
            {"startingTime": "1704110400"},
            "1704110400 lies in early 1970: are these seconds? Times are milliseconds, such as",
        ),
        ({"startingCut": "7:0"}, "there is no segment 7; the stream has those from 0 to 1"),
        (
            {"stream": "right/none"},
            "no stream right/none; to create it: tidegauge create right/none",
        ),
        ({"stream": "right/external"}, "set log=kafka and kafka.bootstrap.servers"),
        (
            {"log": "kafka", "kafka.bootstrap.servers": "127.0.0.1:1"},
            "keeps its events itself; leave out log",
        ),
    ],
)
def test_a_wrong_load_is_refused_with_the_cure(
    right: dict[str, str], wrong: dict[str, str], refused: str
) -> None:
    assert TidegaugeDataSource(right).schema().fieldNames()
    with pytest.raises((InvalidOptionError, TidegaugeError), match=re.escape(refused)):
        TidegaugeDataSource(right | wrong).schema()


def test_a_load_shows_its_token_which_has_to_be_one_that_reads(
    serve: Serve, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path)
    texts = {role: tokens.text(role, "tests", role) for role in ("operate", "read", "write")}
    with serve(tokens=tokens.file) as log:
        log.client.headers["authorization"] = f"Bearer {texts['operate']}"
        log.create()
        options = {"url": log.url, "stream": log.name}
        assert TidegaugeDataSource(options | {"token": texts["read"]}).schema()
        with pytest.raises(TidegaugeError, match="token 'write' may not do this") as refused:
            TidegaugeDataSource(options | {"token": texts["write"]}).schema()
    assert texts["write"] not in str(refused.value)


@pytest.mark.only_on("sqlite", "the backup is a copy of its file")
def test_a_log_that_ends_before_the_checkpoint_fails_a_query_unless_it_may_lose_events(
    serve: Serve, database_url: str, tmp_path: Path
) -> None:
    """As after a backup was restored, with a reader group, too."""
    database, backup = Path(database_url.removeprefix("sqlite:///")), tmp_path / "backup.db"
    starts = {"alone": {}, "grouped": {"readerGroup": "grouped"}, "careless": _LOSES}
    streams, queries = dict[str, Feed](), dict[str, Played]()

    def write(service: LogApi, *times: int) -> None:
        for name in starts:
            transport = service.client._transport
            with Feed(service.url, f"restored/{name}", transport=transport) as feed:
                feed.write(*times)

    with serve() as service:
        for name, how in starts.items():
            transport = service.client._transport
            streams[name] = Feed(service.url, f"restored/{name}", transport=transport)
            streams[name].create()
            queries[name] = Played(streams[name].options | how, "offset")
        write(service, 1_000)
    shutil.copy(database, backup)
    with serve() as service:
        write(service, 2_000, 3_000)
        for query in queries.values():
            with query:
                query.until_rows(3)
    shutil.copy(backup, database)
    with serve() as service:
        for name in ("alone", "grouped"):
            with queries[name] as query, pytest.raises(DataLossError, match="0 from offset 3"):
                query.read()
        with queries["careless"] as query:
            write(service, 4_000, 5_000, 6_000)
            query.until_rows(4)
        assert query.rows == [(0,), (1,), (2,), (3,)]
