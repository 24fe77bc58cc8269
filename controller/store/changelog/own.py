"""A changelog a stream, for databases that several controllers share.

Only the holder of a stream writes to its log, in transactions that fail without its lease. So who
takes a stream over reads a log that nobody writes to any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, delete, select

from controller.commit.batch import Batch
from controller.database.statements import insert_rows
from controller.schema import changelog
from controller.store.changelog.change_store import (
    ChangeStore,
    add_marks,
    dump_entry,
    row_count,
)
from tidegauge.aggregation.changes import Changes

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


class OwnLogs(ChangeStore):
    """Stores an entry in a row of its own."""

    def __init__(self) -> None:
        self._logs: dict[int, _Log] = {}

    def add(self, batch: Batch, stream_key: int, changes: Changes) -> None:
        """Store what happened to a stream."""
        add_marks(batch, stream_key, changes.marks)
        log = self._logs.setdefault(stream_key, _Log())
        if changes.entry:
            log.last += 1
            text = dump_entry(changes.entry)
            row = (stream_key, log.last, text)
            batch.write_together(_insert, row, rows=row_count(text))
        if changes.begins_compaction:
            log.restated_from = log.last
        if changes.ends_compaction:
            batch.write_together(_delete, _Needless(stream_key, log.restated_from))

    def entries(self, connection: Connection, stream_key: int) -> Iterator[bytes]:
        """Read the changelog of a stream; what a failed transaction wrote is not there.

        The race: a stream that is held is read beside, and what was read is thrown away. So
        numbers never fall; that some are left out does no harm.
        """
        log = self._logs.setdefault(stream_key, _Log())
        query = select(changelog.c.number, changelog.c.entry).order_by(changelog.c.number)
        rows = connection.execute(
            query.where(changelog.c.stream_key == stream_key), execution_options=_IN_PARTS
        )
        for number, entry in rows:
            log.last = max(log.last, number)
            yield entry

    def drop(self, batch: Batch, stream_key: int) -> None:  # noqa: ARG002 (its rows are purged)
        """Know nothing of a stream any more."""
        self._logs.pop(stream_key, None)


def _insert(connection: Connection, rows: list[tuple[int, int, bytes]]) -> None:
    insert_rows(connection, changelog, rows)


def _delete(connection: Connection, needless: list[_Needless]) -> None:
    for key, before in needless:
        connection.execute(
            delete(changelog).where(changelog.c.stream_key == key, changelog.c.number < before)
        )
