"""The work list of a batch job over a stream: which hours are complete, and which late events changed."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from reader_client import GoneError, StreamClient
from tests.service.api import Api
from tests.service.log_api import LogApi
from tests.written_tables import BEGIN, HOUR, Delta
from tidegauge.event_time import END_OF_TIME
from tidegauge.intervals import Interval
from writer_client import Writer


@pytest.fixture
def client(log: LogApi) -> Iterator[StreamClient]:
    with StreamClient(log.url, log.name) as client:
        yield client


@pytest.fixture
def writer(log: LogApi) -> Iterator[Writer]:
    """A writer of the stream, which has two segments."""
    log.create(segments=2)
    with log.writer("w") as writer:
        yield writer


def write(client: StreamClient, writer: Writer, *times: int, until: int) -> None:
    for number, time in enumerate(times):
        writer.write(b"", key=f"key-{number}-{time}", event_time=time)
    writer.note_time(until)
    writer.flush()
    client.wait_until(until)


def starts(intervals: list[Interval] | None) -> list[int]:
    return [(interval.start - BEGIN) // HOUR for interval in intervals or ()]


def test_hours_become_complete_once_and_a_late_event_names_its_hour_again(
    client: StreamClient, writer: Writer
) -> None:
    with pytest.raises(ValueError, match="the first call needs start="):
        client.intervals()
    assert client.intervals(start=BEGIN).until is None
    write(client, writer, BEGIN, BEGIN + HOUR, until=BEGIN + HOUR)
    first = client.intervals(start=BEGIN)
    assert (starts(first.new), first.again) == ([0], [])
    write(client, writer, BEGIN + 3, BEGIN + 3 * HOUR, until=BEGIN + 2 * HOUR)
    second = client.intervals(since=first.cursor)
    assert starts(second.new) == [1]
    assert second.again == [Interval(BEGIN, BEGIN + HOUR, rows=1, late_by=HOUR - 3)]
    write(client, writer, BEGIN + 6 * HOUR, until=BEGIN + 2 * HOUR + 1)
    writer.close()
    client.seal()
    last = client.intervals(since=second.cursor)
    assert (last.until, starts(last.new), last.again) == (END_OF_TIME, [2, 3, 4, 5, 6], [])
    behind = client.intervals(since=last.cursor)
    assert (behind.new, behind.again, behind.cursor) == ([], [], last.cursor)


@pytest.mark.parametrize("seed", range(3))
def test_each_late_event_is_counted_once_over_splits(
    client: StreamClient, writer: Writer, seed: int
) -> None:
    random, until, late = Random(seed), BEGIN, list[int]()
    looked = client.intervals(start=BEGIN - 9 * HOUR)
    new, cursor, edge = list[int](), looked.cursor, None
    for _ in range(6):
        behind = [until - random.randrange(1, 5 * HOUR) for _ in range(random.randrange(3))]
        ahead = [until + random.randrange(3 * HOUR) for _ in range(2)]
        until += random.choice([HOUR // 2, HOUR, 2 * HOUR])
        write(client, writer, *behind, *ahead, until=until)
        late += behind
        if random.random() < 0.3:
            client.split(random.choice(client.topology().ends))
        if random.random() < 0.6:
            found = client.intervals(since=cursor, start=BEGIN - 9 * HOUR)
            complete = [time - time % HOUR for time in late if edge and time < edge]
            again = {one.start: one.rows for one in found.again or ()}
            assert again == Counter(complete)
            new += [one.start for one in found.new]
            cursor, edge, late = found.cursor, until - until % HOUR, []
    assert new == [BEGIN - 9 * HOUR + at * HOUR for at in range(len(new))]
    assert not new or new[-1] + HOUR == edge


def test_events_that_were_dropped_and_a_stream_made_again_are_errors(
    client: StreamClient, writer: Writer
) -> None:
    write(client, writer, BEGIN, until=BEGIN + HOUR)
    first = client.intervals(start=BEGIN)
    write(client, writer, BEGIN + HOUR, until=BEGIN + 2 * HOUR)
    client.truncate(time=BEGIN + 2 * HOUR)
    with pytest.raises(GoneError, match="has dropped events"):
        client.intervals(since=first.cursor)
    assert starts(client.intervals(start=BEGIN + HOUR).new) == [1]
    with pytest.raises(GoneError, match="was created again"):
        client.intervals(since='["other", 1, {}, 1, 3600000, null]')
    with pytest.raises(ValueError, match="no cursor of a stream"):
        client.intervals(since="[1, 2, 3]")
    for by, zone in (("1 day", None), ("1 hour", "Asia/Kolkata")):
        with pytest.raises(
            ValueError, match=r"not for .*; start again without it .* start=2026-01-0"
        ):
            client.intervals(since=first.cursor, by=by, zone=zone)


def test_a_table_is_as_complete_as_the_newest_mark_that_it_covers(
    shop: Api, tmp_path: Path
) -> None:
    shop.change(mark_resolution_ms=0)
    table, how = Delta(tmp_path), {"url": shop.url, "stream": shop.name}
    table.append(BEGIN)
    assert table.look(**how).until is None
    shop.note("w", BEGIN + HOUR, 1)
    shop.note("w", BEGIN + 2 * HOUR, 2)
    first = table.look(**how)
    assert (first.version, first.until, starts(first.new)) == (0, BEGIN + HOUR, [0])
    table.append(BEGIN + 1, BEGIN + HOUR)
    second = table.look(first.cursor, **how)
    assert (second.version, starts(second.new), starts(second.again)) == (1, [1], [0])


def test_where_a_sealed_external_log_ends_in_event_time_is_unknown(
    client: StreamClient,
) -> None:
    client.create(log="external", segments=1, mark_interval_ms=0)
    first = client.intervals(start=BEGIN)
    assert (first.until, first.cursor) == (None, None)
    client.seal({0: 7})
    with pytest.raises(ValueError, match="is not known here; run what is left"):
        client.intervals(start=BEGIN)
