"""A changelog instead of writers, pages of reports and a journal."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_COLUMNS = (
    "writer, incarnation, standing, time, position, former_position, former_time, reported, "
    "proved, gone_ms, hold_since_ms, heard_ms, since_serial"
)
_encode = msgspec.msgpack.encode
_HOLD_SINCE, _SINCE_SERIAL = 10, 12
_INSERT_MARK = (
    "INSERT INTO marks (stream_key, revision, lower, upper, cut, created_ms) "
    "VALUES (:p0, :p1, :p2, :p3, :p4, :p5)"
)


def upgrade() -> None:
    """Write what there is of each stream as the only entry of its changelog, or of the shared one."""
    connection = op.get_bind()
    is_shared = connection.dialect.name == "sqlite"
    op.execute(
        "CREATE TABLE changelog (stream_key INTEGER NOT NULL, number BIGINT NOT NULL, "
        f"entry {'BLOB' if is_shared else 'BYTEA'} NOT NULL, PRIMARY KEY (stream_key, number))"
    )
    insert = sa.text("INSERT INTO changelog VALUES (:key, :number, :entry)")
    journal = _read_journal(connection)
    streams = sa.text("SELECT key, reporters, forgotten_incarnation FROM streams ORDER BY key")
    for number, (key, *counters) in enumerate(connection.execute(streams).all(), start=1):
        entries = _entries(connection, key, counters, journal.get(key, []))
        for at, entry in enumerate(entries, start=1):
            if is_shared:
                row = [(key, _encode(entry))]
                values = {"key": 0, "number": 2 * number + at, "entry": _encode(row)}
            else:
                values = {"key": key, "number": at, "entry": _encode(entry)}
            connection.execute(insert, values)
    for table in ("writers", "report_pages", "journal"):
        op.drop_table(table)
    for column in ("reporters", "forgotten_incarnation"):
        op.drop_column("streams", column)


def _read_journal(connection: sa.Connection) -> dict[int, list[list[Any]]]:
    """Read what is not in the tables yet, by stream."""
    found: dict[int, list[list[Any]]] = defaultdict(list)
    rows = sa.text("SELECT changes FROM journal ORDER BY number")
    for text in connection.execute(rows).scalars():
        settled, recorded = json.loads(text)
        for key in settled:
            found.pop(key, None)
        for key, _, changes in recorded:
            found[key].append(changes)
    return found


def _entries(
    connection: sa.Connection, key: int, counters: list[int], journal: list[list[Any]]
) -> Iterator[list[Any]]:
    """Write what there is of a stream as two entries: its writers, and then their reports."""
    of_stream = {"key": key}
    rows = sa.text(f"SELECT {_COLUMNS} FROM writers WHERE stream_key = :key")  # noqa: S608
    writers = {row.writer: list(row) for row in connection.execute(rows, of_stream)}
    rows = sa.text("SELECT page, reports FROM report_pages WHERE stream_key = :key")
    pages = {one.page: one.reports for one in connection.execute(rows, of_stream)}
    for changes in journal:
        _, marks, new_pages, given_up, forgotten, new_writers, holds, counted, _ = changes
        for mark in marks:
            values = {f"p{at}": value for at, value in enumerate(mark)}
            connection.execute(sa.text(_INSERT_MARK), values)
        for page in given_up:
            pages.pop(page, None)
        pages |= {int(page): text for page, text in new_pages.items()}
        for name in forgotten:
            writers.pop(name, None)
        writers |= {name: list(row) for name, row in new_writers.items()}
        for name, since in holds.items():
            if name in writers:
                writers[name][_HOLD_SINCE] = since
        counters = counted or counters
    yield [[], [], [_writer(row) for row in writers.values()], {}, counters, {}]
    yield [list(_reports(pages, writers)), [], [], {}, None, {}]


def _writer(row: list[Any]) -> list[Any]:
    *values, _ = row
    values[4], values[5] = _position(values[4]), _position(values[5])
    values[7], values[8] = bool(values[7]), bool(values[8])
    return [*values, []]


def _reports(pages: dict[int, str], writers: dict[str, list[Any]]) -> Iterator[list[Any]]:
    """List the reports that count in order of acceptance; the last copy of one counts."""
    stored = {report[0]: report for page in sorted(pages) for report in json.loads(pages[page])}
    for serial in sorted(stored):
        _, name, time, gained, *heard_ms = stored[serial]
        if name in writers and serial >= writers[name][_SINCE_SERIAL]:
            yield [name, time, _position(gained), heard_ms[0] if heard_ms else None]


def _position(stored: str | dict[str, int]) -> dict[int, int]:
    position = json.loads(stored) if isinstance(stored, str) else stored
    return {int(number): offset for number, offset in position.items()}
