"""What happened to one stream's aggregation, as the rows that say so."""

from typing import Any, TypeAlias

import msgspec
from msgspec.structs import astuple

from controller.store.marks import RecentMark
from controller.store.positions import dump_position
from tidegauge.aggregation.changes import Changes, StoredPage, StoredWriter

WriterRow: TypeAlias = tuple[Any, ...]
"""Of the table ``writers``, without the key of the stream."""

_dump_reports = msgspec.json.Encoder().encode


class _Stored(msgspec.Struct, array_like=True):
    """A `StoredReport`; the first ones did not say when the writer had spoken."""

    serial: int
    writer: str
    time: int
    gained: dict[int, int]
    heard_ms: int | None = None


_load_reports = msgspec.json.Decoder(list[_Stored]).decode


class StreamChanges(msgspec.Struct, array_like=True):
    """What to store of one stream after one transaction, or several.

    Attributes
    ----------
    stream_key
        Of the stream.
    marks
        To insert.
    pages
        Of reports, to insert by number.
    pages_given_up
        To delete, before others are inserted.
    forgotten
        Names of writers to delete, before others are written: one of these may have come back.
    writers
        To insert or replace, by name.
    holds
        To set in the rows of writers afterwards, by name.
    counters
        To store with the stream, if changed: see `Changes`.
    count
        Roughly how many short rows all this was, one transaction after another.
    """

    stream_key: int
    marks: list[RecentMark]
    pages: dict[int, str]
    pages_given_up: list[int]
    forgotten: list[str]
    writers: dict[str, WriterRow]
    holds: dict[str, int | None]
    counters: tuple[int, int] | None
    count: int

    @classmethod
    def none(cls, stream_key: int) -> "StreamChanges":
        """Nothing happened to a stream."""
        return cls(stream_key, [], {}, [], [], {}, {}, None, 0)

    @classmethod
    def of(cls, stream_key: int, changes: Changes, wall_ms: int) -> "StreamChanges":
        """Tell what an aggregation handed out; marks were made at that time."""
        page = changes.page
        return cls(
            stream_key,
            [
                RecentMark(
                    stream_key,
                    one.revision,
                    one.lower,
                    one.upper,
                    dump_position(one.cut),
                    wall_ms,
                )
                for one in changes.marks
            ],
            {} if page is None else {page.number: _dump_reports(page.reports).decode()},
            changes.pages_given_up,
            changes.forgotten,
            {one.writer: _writer_row(one) for one in changes.writers},
            changes.holds,
            changes.counters,
            changes.count,
        )

    def add(self, later: "StreamChanges") -> None:
        """Tell what happened after that, too."""
        self.marks += later.marks
        for number in later.pages_given_up:
            if self.pages.pop(number, None) is None:
                self.pages_given_up.append(number)
        self.pages |= later.pages
        for name in later.forgotten:
            self.writers.pop(name, None)
            self.holds.pop(name, None)
        self.forgotten += later.forgotten
        for name in later.writers:
            self.holds.pop(name, None)
        self.writers |= later.writers
        self.holds |= later.holds
        self.counters = later.counters or self.counters
        self.count += later.count


def load_page(number: int, text: str) -> StoredPage:
    """Read a page of reports back."""
    return StoredPage(number, [astuple(one) for one in _load_reports(text)])


def _writer_row(one: StoredWriter) -> WriterRow:
    return one._replace(
        position=dump_position(one.position),  # type: ignore[arg-type]
        former_position=dump_position(one.former_position),  # type: ignore[arg-type]
    )
