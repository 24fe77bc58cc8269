"""What happens to the aggregations of streams: a changelog of each, and the marks that come of it.

Only the controller that holds the database writes to them, in transactions that fail without its lease. So
whoever takes over reads logs that nobody writes to any more.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, delete, select

from controller.commit.batch import Batch, rows_of
from controller.database.statements import insert_rows
from controller.schema import changelog, marks
from controller.store.holds import insert_holds
from controller.store.marks import dump_position, read_newest
from tidegauge.aggregation.changes import Changes, Entry, StoredAggregation

dump_entry = msgspec.msgpack.Encoder().encode
load_entry = msgspec.msgpack.Decoder(Entry).decode

_IN_PARTS = {"yield_per": 100}
_NO_ENTRIES = inf, ()


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
            bounds = one.revision, one.lower, one.upper
            mark = (stream_key, *bounds, dump_position(one.cut), one.marked_ms)
            batch.write_together(_insert_marks, mark)
        for hold in changes.holds:
            batch.write_together(insert_holds, (stream_key, hold))
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

    def forget(self, stream_key: int) -> None:
        """Forget a stream that was deleted, whose rows are purged."""
        self._logs.pop(stream_key, None)

    def restore(
        self, connection: Connection, keys: Sequence[int]
    ) -> Iterator[StoredAggregation]:
        """Read what was stored of aggregations: of a stream, or of all by rising key.

        The entries of each have to be read before the next; `add` goes on from them. Two queries
        read everything: some for each of 10 000 streams would be a minute of round trips.
        What a failed transaction wrote is not there; that some numbers are left out does no harm.
        """
        if not keys:
            return
        newest = read_newest(connection, keys[0], keys[-1])
        by_stream = groupby(
            _read_entries(connection, keys[0], keys[-1]), attrgetter("stream_key")
        )
        key_found, rows = next(by_stream, _NO_ENTRIES)
        for key in keys:
            while key_found < key:  # of a stream that was deleted, and is not purged yet
                key_found, rows = next(by_stream, _NO_ENTRIES)
            entries = self._load(key, rows if key_found == key else ())
            yield StoredAggregation(newest=newest.get(key), entries=entries)

    def _load(self, stream_key: int, rows: Iterable[Row[Any]]) -> Iterator[Entry]:
        log = self._logs.setdefault(stream_key, _Log())
        for row in rows:
            log.last = max(log.last, row.number)
            yield load_entry(row.entry)


def _read_entries(connection: Connection, first_key: int, last_key: int) -> Iterable[Row[Any]]:
    """Read entries in parts, since all may be more than fit into memory."""
    query = select(changelog).where(changelog.c.stream_key.between(first_key, last_key))
    return connection.execute(
        query.order_by(changelog.c.stream_key, changelog.c.number), execution_options=_IN_PARTS
    )


def _insert_marks(connection: Connection, rows: list[tuple[object, ...]]) -> None:
    insert_rows(connection, marks, rows)


def _insert(connection: Connection, rows: list[tuple[int, int, bytes]]) -> None:
    insert_rows(connection, changelog, rows)


def _delete(connection: Connection, needless: list[_Needless]) -> None:
    for key, before in needless:
        connection.execute(
            delete(changelog).where(changelog.c.stream_key == key, changelog.c.number < before)
        )
