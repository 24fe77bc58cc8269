"""What a stream asks of whatever stores its changes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

import msgspec
from sqlalchemy import Connection

from controller.commit.batch import Batch
from controller.database.statements import insert_rows
from controller.schema import marks
from controller.store.marks import StoredMarks, dump_position
from tidegauge.aggregation.changes import Changes, Entry, StoredAggregation
from tidegauge.marks import Mark

dump_entry = msgspec.msgpack.Encoder().encode
load_entry = msgspec.msgpack.Decoder(Entry).decode
_ROW_BYTES = 256
"""As long as a short row is at most."""


class ChangeStore(ABC):
    """Stores what happened to the aggregations of streams."""

    @abstractmethod
    def add(self, batch: Batch, stream_key: int, changes: Changes) -> None:
        """Store what happened to a stream, at most once a batch."""

    @abstractmethod
    def entries(self, connection: Connection, stream_key: int) -> Iterable[bytes]:
        """Read the changelog of a stream, from which `add` goes on."""

    @abstractmethod
    def drop(self, batch: Batch, stream_key: int) -> None:
        """Let a stream go that is deleted."""

    def restore(self, connection: Connection, stream_key: int) -> StoredAggregation:
        """Read everything that was stored of a stream's aggregation."""
        found = StoredMarks(connection, stream_key)
        return StoredAggregation(
            newest=found.newest,
            entries=map(load_entry, self.entries(connection, stream_key)),
        )


def add_marks(batch: Batch, stream_key: int, made: Iterable[Mark]) -> None:
    """Store marks where everybody looks them up."""
    for one in made:
        cut = dump_position(one.cut)
        row = (stream_key, one.revision, one.lower, one.upper, cut, one.marked_ms)
        batch.write_together(_write_marks, row)


def row_count(text: bytes) -> int:
    """Tell how many short rows are as long as an entry."""
    return 1 + len(text) // _ROW_BYTES


def _write_marks(connection: Connection, rows: list[tuple[object, ...]]) -> None:
    insert_rows(connection, marks, rows)
