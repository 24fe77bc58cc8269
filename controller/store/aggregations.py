"""Rows of writers, reports and marks: what a stream's aggregation is restored from.

Every function runs inside a transaction that its caller owns.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import astuple
from sqlalchemy import Connection, Row, select, update

from controller.database.statements import delete_rows, insert_rows, replace_rows, update_rows
from controller.schema import marks, report_pages, streams, writers
from controller.store.changes import StreamChanges, load_page
from controller.store.marks import StoredMarks
from controller.store.positions import load_position
from tidegauge.aggregation.changes import StoredAggregation, StoredPage, StoredWriter

_IN_PARTS = {"yield_per": 1_000}


def write_changes(connection: Connection, changes: Sequence[StreamChanges]) -> None:
    """Store what happened to the aggregations of some streams, each given once.

    Rows of one table go together, whichever stream they are of: statements cost more than rows.
    """
    given_up = [(one.stream_key, page) for one in changes for page in one.pages_given_up]
    delete_rows(connection, report_pages, given_up)
    pages = [
        (one.stream_key, number, text) for one in changes for number, text in one.pages.items()
    ]
    insert_rows(connection, report_pages, pages)
    _write_writers(connection, changes)
    insert_rows(connection, marks, [astuple(mark) for one in changes for mark in one.marks])
    for one in changes:
        if one.counters is not None:
            _write_counters(connection, one.stream_key, *one.counters)


def _write_writers(connection: Connection, changes: Sequence[StreamChanges]) -> None:
    forgotten = [(one.stream_key, name) for one in changes for name in one.forgotten]
    delete_rows(connection, writers, forgotten)
    rows = [(one.stream_key, *row) for one in changes for row in one.writers.values()]
    replace_rows(connection, writers, rows)
    holds = [
        (one.stream_key, name, since) for one in changes for name, since in one.holds.items()
    ]
    update_rows(connection, writers, ("stream_key", "writer", "hold_since_ms"), holds)


def _write_counters(
    connection: Connection, stream_key: int, reporters: int, forgotten_incarnation: int
) -> None:
    connection.execute(
        update(streams)
        .where(streams.c.key == stream_key)
        .values(reporters=reporters, forgotten_incarnation=forgotten_incarnation)
    )


def read_clock(
    connection: Connection, stream: Row[Any], recent: StreamChanges
) -> StoredAggregation:
    """Read everything that was stored of a stream's aggregation, rows as they are asked for.

    ``recent`` is what is not in the tables yet.
    """
    found = StoredMarks(connection, stream.key, recent.marks)
    stored = (stream.reporters, stream.forgotten_incarnation)
    reporters, forgotten_incarnation = recent.counters or stored
    return StoredAggregation(
        newest=found.newest,
        marked_ms=found.newest_created_ms,
        reporters=reporters,
        forgotten_incarnation=forgotten_incarnation,
        writers=_read_writers(connection, recent),
        pages=_read_pages(connection, recent),
    )


def _read_writers(connection: Connection, recent: StreamChanges) -> Iterator[StoredWriter]:
    for row in _writer_rows(connection, recent):
        stored = StoredWriter(*row)
        yield stored._replace(
            position=load_position(stored.position),  # type: ignore[arg-type]
            former_position=load_position(stored.former_position),  # type: ignore[arg-type]
            hold_since_ms=recent.holds.get(stored.writer, stored.hold_since_ms),
        )


def _writer_rows(connection: Connection, recent: StreamChanges) -> Iterator[Sequence[Any]]:
    columns = [writers.c[name] for name in StoredWriter._fields]
    query = select(*columns).where(writers.c.stream_key == recent.stream_key)
    needless = recent.writers.keys() | set(recent.forgotten)
    for row in connection.execute(query, execution_options=_IN_PARTS):
        if row.writer not in needless:
            yield row
    yield from recent.writers.values()


def _read_pages(connection: Connection, recent: StreamChanges) -> Iterator[StoredPage]:
    rows = connection.execute(
        select(report_pages.c.page, report_pages.c.reports)
        .where(report_pages.c.stream_key == recent.stream_key)
        .order_by(report_pages.c.page),
        execution_options=_IN_PARTS,
    )
    given_up = set(recent.pages_given_up)
    for number, text in rows:
        if number not in given_up:
            yield load_page(number, text)
    for number, text in recent.pages.items():
        yield load_page(number, text)
