"""Truncation by cut, by time and by retention: what goes, what stays, and who may ask for it."""

from collections.abc import Iterator
from random import Random
from unittest.mock import patch

import pytest
from sqlalchemy import Table, func, select

from controller.background import maintenance, purging, retention
from controller.background.purging import Pace, Purger
from controller.schema import chunks, marks, streams
from controller.streams import reading as reading_log
from controller.streams.truncation import truncate_at_cut
from reader_client import ReaderGroup, StreamClient
from tests.patience import wait_until
from tests.service.in_process import Service
from tests.service.log_api import LogApi, numbered
from tests.service.log_service import LogService, run_with, stored_events
from tests.service.sessions import connected
from tidegauge.errors import (
    EventsNeededError,
    InvalidRequestError,
    TruncatedError,
)

pytestmark = pytest.mark.about_sql

INCOMPRESSIBLE = Random(1).randbytes(1_000_000)


@pytest.fixture(scope="module", autouse=True)
def often() -> Iterator[None]:
    """Let what happens in the background happen soon."""
    with (
        patch.object(maintenance, "_PERIOD_S", 0.02),
        patch.object(purging, "_PERIOD_S", 0.02),
        patch.object(retention, "_PERIOD_S", 0.02),
    ):
        yield


@pytest.fixture
def client(log: LogApi) -> Iterator[StreamClient]:
    with StreamClient(log.url, log.name) as client:
        yield client


@pytest.fixture
def group(log: LogApi) -> Iterator[ReaderGroup]:
    with log.group() as group:
        yield group


def fill(log: LogApi, **settings: object) -> None:
    """Events 0 to 99 of that time, in ten chunks, and a mark."""
    log.create(**settings)
    log.register()
    for sequence in range(1, 11):
        log.append(numbered(10 * sequence - 10, 10), sequence)
        log.note_time(10 * sequence, incarnation=1, position={"0": 10 * sequence})


def stored_rows(service: Service, table: Table) -> int:
    """Count the rows of the youngest stream."""
    youngest = select(func.max(streams.c.key)).scalar_subquery()
    query = select(func.count()).select_from(table).where(table.c.stream_key == youngest)
    with connected(service.app.process.settings.database_url) as connection:
        return connection.scalar(query) or 0


def test_no_event_at_or_above_the_time_goes(log: LogApi, client: StreamClient) -> None:
    log.create()
    log.register()
    log.append([("k", time, b"") for time in (10, 30, 20, None, 40, 30)], 1)
    assert client.truncate(time=21).first_cut == {0: 1}
    assert client.truncate(time=40).first_cut == {0: 4}
    assert client.truncate(time=41).first_cut == {0: 6}


@pytest.mark.only_on("sqlite", "refused before any database")
def test_how_long_an_external_log_is_kept_is_for_its_owner_to_say(
    log: LogApi, client: StreamClient
) -> None:
    log.create(log="external")
    with pytest.raises(InvalidRequestError, match="its owner decides how long events are kept"):
        client.configure(retention={"age_ms": 1})
    assert client.describe().first_cut is None


def test_what_a_group_or_its_checkpoint_needs_goes_only_by_force(
    log: LogApi, client: StreamClient, group: ReaderGroup
) -> None:
    fill(log)
    group.create([log.name], start_cut={log.name: {0: 20}})
    group.checkpoint("noon")
    with log.reader() as reader:
        reader.read_next()
    assert group.position(log.name) == {0: 100}
    assert client.truncate(cut={0: 20}).first_cut == {0: 20}
    for ask in ({"cut": {0: 21}}, {"time": 21}):
        with pytest.raises(EventsNeededError) as refused:
            client.truncate(**ask)
        needed = refused.value
        assert (needed.group, needed.checkpoint, needed.position) == (log.name, "noon", {0: 20})
    assert client.truncate(cut={0: 21}, force=True).first_cut == {0: 21}
    group.delete()
    assert client.truncate(cut={0: 30}).first_cut == {0: 30}


def test_earliest_is_the_first_cut_and_no_group_starts_before_it(
    log: LogApi, client: StreamClient, group: ReaderGroup
) -> None:
    fill(log)
    client.truncate(cut={0: 35})
    with pytest.raises(TruncatedError) as refused:
        group.create([log.name], start_cut={log.name: {0: 34}})
    assert refused.value.first_offset == 35
    group.create([log.name])
    assert group.position(log.name) == {0: 35}
    assert group.get_time_window(log.name).lower == 30


def test_a_read_that_comes_to_truncated_events_ends_there_and_the_next_raises(
    database_url: str,
) -> None:
    async def read_slowly(log: LogService) -> None:
        await log.create(segments=1)
        await log.register("w")
        for sequence in range(1, 4):
            await log.append("w", 1, 0, sequence, numbered(10 * sequence - 10, 10))
        parts = log.parts
        with patch.object(reading_log, "_PAGE_BYTES", 1):  # a chunk
            _, body = await log.open_read(0)
            answered = [await anext(body), await anext(body)]  # the schema, and the first page
            await truncate_at_cut(parts.database, log.state, {0: 25}, force=False)
            purger = Purger(parts.database, parts.registry, parts.is_certain, Pace())
            while await purger._purge_truncated():
                pass
            answered += [part async for part in body]
        assert stored_events(answered) == numbered(0, 10)
        with pytest.raises(TruncatedError):
            await log.read(0, 10)
        assert await log.read(0, 25) == (20, numbered(20, 10))

    run_with(database_url, read_slowly)


def test_marks_go_with_the_events_but_for_those_around_the_cut(
    service: Service, log: LogApi, client: StreamClient
) -> None:
    fill(log, mark_resolution_ms=0)
    assert [mark.lower for mark in client.marks()] == list(range(10, 101, 10))
    client.truncate(cut={0: 55})
    wait_until(lambda: stored_rows(service, marks) == 6)
    assert [mark.lower for mark in client.marks()] == [50, 60, 70, 80, 90, 100]
    assert client.marks_at_position({0: 55}).lower == 50
    assert client.marks_at_position({0: 20}).lower is None
    assert client.marks_at_time(20).stop == client.marks_at_time(50).stop


def test_retention_lets_go_what_no_group_needs(
    log: LogApi, client: StreamClient, group: ReaderGroup
) -> None:
    fill(log)
    group.create([log.name], start_cut={log.name: {0: 42}})
    assert client.configure(retention={"age_ms": 1}).config.retention is not None
    wait_until(lambda: client.describe().first_cut == {0: 42})
    group.delete()
    wait_until(lambda: client.describe().first_cut == {0: 100})
    assert client.configure(retention=None).config.retention is None


@pytest.mark.parametrize("is_split", [False, True])
def test_retention_keeps_as_many_bytes_and_always_what_came_last(
    log: LogApi, client: StreamClient, *, is_split: bool
) -> None:
    log.create()
    log.register()
    for sequence in range(1, 4):
        log.append([("k", sequence, INCOMPRESSIBLE[:4_096])], sequence)
    if is_split:
        client.split(0)
    client.configure(retention={"bytes": 6_000})
    wait_until(lambda: client.describe().first_cut == {0: 2})
    client.configure(retention={"bytes": 10})
    log.append_lines('{"key": "a", "value": ""}')
    last = {1: 0, 2: 0} if is_split else {0: 3}
    wait_until(lambda: client.describe().first_cut == last)


@pytest.mark.only_on("sqlite", "about the pages of its file")
def test_the_space_of_truncated_events_is_used_again(
    service: Service, log: LogApi, client: StreamClient
) -> None:
    log.create()
    log.register()

    def pages() -> int:
        with connected(service.app.process.settings.database_url) as connection:
            count: int = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return count

    sizes = []
    for sequence in range(1, 13):
        log.append([("k", sequence, INCOMPRESSIBLE)], sequence)
        if sequence % 4 == 0:
            sizes.append(pages())
            client.truncate(cut={0: sequence})
            wait_until(lambda: stored_rows(service, chunks) == 0)
    assert sizes[2] <= sizes[0] + 100  # the same megabytes three times, and some bookkeeping


def test_a_reader_raises_once_and_goes_on_at_the_first_offset(
    log: LogApi, client: StreamClient, group: ReaderGroup
) -> None:
    fill(log)
    group.create([log.name])
    with log.reader() as reader:
        assert len(reader.read_next(limit=10)) == 10
        client.truncate(cut={0: 35}, force=True)
        assert group.get_time_window(log.name).lower is None
        with pytest.raises(TruncatedError) as raised:
            reader.read_next()
        assert (raised.value.offset, raised.value.first_offset) == (10, 35)
        assert group.get_time_window(log.name).lower == 30
        assert reader.read_next()[0].offset == 35
        assert reader.read_next(wait_ms=0) == []
        assert group.get_time_window(log.name).lower == 100
