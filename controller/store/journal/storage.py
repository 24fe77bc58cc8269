"""Rows of the journal.

Every function runs inside a transaction that its caller owns.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from sqlalchemy import Connection, func, select

from controller.database.statements import delete_rows, insert_rows
from controller.schema import journal, streams
from controller.store.changes import StreamChanges

_IN_PARTS = {"yield_per": 100}
_ROW_BYTES = 256
"""As long as a short row is at most."""


class Recorded(msgspec.Struct, array_like=True):
    """What one transaction changed in a stream.

    Attributes
    ----------
    stream_key
        Of the stream.
    rows
        Roughly how many short rows that is.
    text
        `StreamChanges`, as JSON.
    """

    stream_key: int
    rows: int
    text: msgspec.Raw

    @classmethod
    def of(cls, changes: StreamChanges) -> "Recorded":
        """Write down what happened to a stream."""
        text = _dump(changes)
        rows = max(changes.count, len(text) // _ROW_BYTES)
        return cls(changes.stream_key, rows, msgspec.Raw(text))

    @property
    def length(self) -> int:
        """How many short rows are as long as the text."""
        return 1 + len(bytes(self.text)) // _ROW_BYTES


class Entry(msgspec.Struct, array_like=True):
    """What one transaction did to the journal.

    Attributes
    ----------
    settled
        Keys of streams of which nothing matters any more that is in entries before.
    recorded
        What is not in the tables yet.
    """

    settled: list[int]
    recorded: list[Recorded]


_dump = msgspec.json.Encoder().encode
_load_entry = msgspec.json.Decoder(Entry).decode
_load_changes = msgspec.json.Decoder(StreamChanges).decode


def merged(stream_key: int, recorded: Iterable[bytes]) -> StreamChanges:
    """Tell what happened to a stream in all of some transactions, one after another."""
    changes = StreamChanges.none(stream_key)
    for text in recorded:
        changes.add(_load_changes(text))
    return changes


def write_entry(connection: Connection, number: int, entry: Entry) -> None:
    """Store an entry."""
    insert_rows(connection, journal, [(number, _dump(entry).decode())])


def delete_entries(connection: Connection, numbers: Sequence[int]) -> None:
    """Delete entries of which nothing matters any more."""
    delete_rows(connection, journal, [(number,) for number in numbers])


def last_number(connection: Connection) -> int:
    """Find the newest entry; 0 if there is none."""
    return connection.scalar(select(func.max(journal.c.number))) or 0


def read_entries(connection: Connection) -> Iterator[tuple[int, Entry]]:
    """Read all entries in order, without what they say of streams that are deleted."""
    there = set(connection.scalars(select(streams.c.key)))
    rows = connection.execute(
        select(journal).order_by(journal.c.number), execution_options=_IN_PARTS
    )
    for number, text in rows:
        entry = _load_entry(text)
        recorded = [one for one in entry.recorded if one.stream_key in there]
        yield number, Entry(entry.settled, recorded)
