"""What happens to the aggregations of streams: a changelog of each, and the marks that come of it.

Only the controller that holds the database writes to them, in transactions that fail without its lease. So
whoever takes over reads logs that nobody writes to any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, delete, select

from controller.commit.batch import Batch, rows_of
from controller.database.statements import insert_rows
from controller.schema import changelog, marks
from controller.store.marks import StoredMarks, dump_position
from tidegauge.aggregation.changes import Changes, Entry, StoredAggregation
from tidegauge.marks import Mark

dump_entry = msgspec.msgpack.Encoder().encode
load_entry = msgspec.msgpack.Decoder(Entry).decode

_IN_PARTS = {"yield_per": 100}


@dataclass(slots=True)
class _Log:
    last: int = 0
    """The number of the newest entry."""
    restated_from: int = 0
    """The first entry of the present compaction, or the last one."""


class _Needless(NamedTuple):
    stream_key: int
    before: int


class Changelogs:
    """Stores what happened to the aggregations of streams: an entry is a row."""

    def __init__(self) -> None:
        self._logs: dict[int, _Log] = {}

    def add(self, batch: Batch, stream_key: int, changes: Changes) -> None:
        """Store what happened to a stream, at most once a batch."""
        for one in changes.marks:
            batch.write_together(_insert_marks, _mark_row(stream_key, one))
        log = self._logs.setdefault(stream_key, _Log())
        if changes.entry:
            log.last += 1
            text = dump_entry(changes.entry)
            row = (stream_key, log.last, text)
            batch.write_together(_insert, row, rows=rows_of(text))
        if changes.begins_compaction:
            log.restated_from = log.last
        if changes.ends_compaction:
            batch.write_together(_delete, _Needless(stream_key, log.restated_from))

    def entries(self, connection: Connection, stream_key: int) -> Iterator[bytes]:
        """Read the changelog of a stream, from which `add` goes on.

        What a failed transaction wrote is not there; that some numbers are left out does no harm.
        """
        log = self._logs.setdefault(stream_key, _Log())
        query = select(changelog.c.number, changelog.c.entry).order_by(changelog.c.number)
        rows = connection.execute(
            query.where(changelog.c.stream_key == stream_key), execution_options=_IN_PARTS
        )
        for number, entry in rows:
            log.last = max(log.last, number)
            yield entry

    def forget(self, stream_key: int) -> None:
        """Forget a stream that was deleted, whose rows are purged."""
        self._logs.pop(stream_key, None)

    def restore(self, connection: Connection, stream_key: int) -> StoredAggregation:
        """Read everything that was stored of a stream's aggregation."""
        found = StoredMarks(connection, stream_key)
        return StoredAggregation(
            newest=found.newest,
            entries=map(load_entry, self.entries(connection, stream_key)),
        )


def _mark_row(stream_key: int, one: Mark) -> tuple[object, ...]:
    cut = dump_position(one.cut)
    return stream_key, one.revision, one.lower, one.upper, cut, one.marked_ms


def _insert_marks(connection: Connection, rows: list[tuple[object, ...]]) -> None:
    insert_rows(connection, marks, rows)


def _insert(connection: Connection, rows: list[tuple[int, int, bytes]]) -> None:
    insert_rows(connection, changelog, rows)


def _delete(connection: Connection, needless: list[_Needless]) -> None:
    for key, before in needless:
        connection.execute(
            delete(changelog).where(changelog.c.stream_key == key, changelog.c.number < before)
        )
