"""One changelog for all streams, for a database that one controller has to itself.

A transaction that changes 500 streams a little would touch 500 places on the disk, were the entries
of each stream together. So it appends one row with the entries of all. What is needed of each
stream is in memory too, as it was stored: what is restored after a transaction that failed is not
looked for among all others. The oldest rows are deleted once no stream needs them; quiet streams
that keep them from it are compacted.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from sqlalchemy import Connection, delete, func, select

from controller.commit.batch import Batch
from controller.database import Database
from controller.database.statements import insert_rows
from controller.schema import changelog, streams
from controller.store.changelog.change_store import (
    ChangeStore,
    add_marks,
    dump_entry,
    row_count,
)
from tidegauge.aggregation.changes import Changes

SHARED_KEY = 0
"""No stream has this key."""
_SLACK_BYTES = 1_048_576
"""So much more than twice what is needed may be stored."""
_COMPACTED_AT_ONCE = 64
"""So many quiet streams a transaction give up the oldest rows."""
_IN_PARTS = {"yield_per": 100}
_dump_row = msgspec.msgpack.Encoder().encode
_load_row = msgspec.msgpack.Decoder(list[tuple[int, bytes]]).decode
_GONE = b""
"""Instead of an entry: the stream is deleted, and another may get its key."""


@dataclass(slots=True)
class _Log:
    """What is needed of a stream."""

    entries: deque[tuple[int, bytes]] = field(default_factory=deque)
    """With the numbers of their rows."""
    restated_from: int = 0
    """The row with the first entry of the present compaction; 0 if there is none."""


@dataclass(slots=True)
class _Draft:
    """What the present batch appends."""

    entries: list[tuple[int, bytes]] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    """Keys of streams whose compaction begins."""
    ended: list[int] = field(default_factory=list)
    """Keys of streams whose compaction ends."""


class SharedLog(ChangeStore):
    """Stores the entries of a transaction in one row.

    Parameters
    ----------
    database
        Where it is; no other process writes there.

    Attributes
    ----------
    compact
        Has streams compacted, by key, in a transaction that follows.
    """

    def __init__(self, database: Database) -> None:
        self.compact: Callable[[Sequence[int]], None] = lambda _keys: None
        self._database = database
        self._draft: _Draft | None = None
        self._forget()

    def _forget(self) -> None:
        self._logs: dict[int, _Log] = {}
        self._first_of: dict[int, dict[int, None]] = {}
        """By row, the keys of the streams of which it has the oldest entry that is needed."""
        self._rows: deque[tuple[int, int]] = deque()
        """Numbers and lengths of the rows that are stored."""
        self._last = self._stored_bytes = self._needed_bytes = 0

    async def read_back(self) -> None:
        """Find out what the disk has."""
        self._forget()
        there, rows = await self._database.read(_read)
        for number, text in rows:
            entries = [one for one in _load_row(text) if one[0] in there]
            self._take_in(number, len(text), entries)

    def add(self, batch: Batch, stream_key: int, changes: Changes) -> None:
        """Store what happened to a stream."""
        add_marks(batch, stream_key, changes.marks)
        draft = self._draft_for(batch)
        if changes.entry:
            text = dump_entry(changes.entry)
            draft.entries.append((stream_key, text))
            batch.rows += row_count(text)
        if changes.begins_compaction:
            draft.begun.append(stream_key)
        if changes.ends_compaction:
            draft.ended.append(stream_key)

    def entries(self, connection: Connection, stream_key: int) -> Sequence[bytes]:  # noqa: ARG002
        """Tell what is stored of a stream."""
        log = self._logs.get(stream_key)
        return () if log is None else [text for _, text in log.entries]

    def drop(self, batch: Batch, stream_key: int) -> None:
        """Let a stream go that is deleted."""
        if stream_key in self._logs:
            self._draft_for(batch).entries.append((stream_key, _GONE))

    def before_commit(self, batch: Batch) -> None:
        """Come after all streams, so that it is read back before they are."""
        del batch.touched[self]
        batch.touch(self)

    def after_commit(self) -> None:
        """Take note that the batch is stored."""
        draft, self._draft = self._draft, None
        if draft is None or not draft.entries:
            return
        self._free(self._needless)
        self._take_in(self._last + 1, len(_dump_row(draft.entries)), draft.entries)
        for key in draft.begun:
            self._logs[key].restated_from = self._last
        for key in draft.ended:
            self._give_up(key)
        # Where nothing is needed any more, the next transaction deletes all there is.
        if self._first_of and self._stored_bytes > 2 * self._needed_bytes + _SLACK_BYTES:
            oldest = self._first_of[self._rows[self._needless][0]]
            self.compact(list(oldest)[:_COMPACTED_AT_ONCE])

    async def reload(self) -> None:
        """Become what the disk says; a batch that failed may have been stored."""
        self._draft = None
        if await self._database.read(_last_number) != self._last:
            await self.read_back()

    def _draft_for(self, batch: Batch) -> _Draft:
        if self._draft is None:
            self._draft = _Draft()
            batch.write_together(self._write, self._draft)
            batch.rows += self._needless  # they are deleted with it
            batch.touch(self)
        return self._draft

    def _write(self, connection: Connection, drafts: list[_Draft]) -> None:
        (draft,) = drafts
        if not draft.entries:
            return
        row = (SHARED_KEY, self._last + 1, _dump_row(draft.entries))
        insert_rows(connection, changelog, [row])
        if count := self._needless:
            number, _ = self._rows[count - 1]
            connection.execute(
                delete(changelog).where(
                    changelog.c.stream_key == SHARED_KEY, changelog.c.number <= number
                )
            )

    @property
    def _needless(self) -> int:
        """How many of the oldest rows no stream needs."""
        count = 0
        while count < len(self._rows) and self._rows[count][0] not in self._first_of:
            count += 1
        return count

    def _free(self, count: int) -> None:
        for _ in range(count):
            self._stored_bytes -= self._rows.popleft()[1]

    def _take_in(self, number: int, length: int, entries: list[tuple[int, bytes]]) -> None:
        """Note that a row was stored."""
        self._rows.append((number, length))
        self._stored_bytes += length
        self._last = number
        for key, text in entries:
            if text == _GONE:
                self._pop(key, before=number)
                self._logs.pop(key, None)
                continue
            log = self._logs.get(key) or self._logs.setdefault(key, _Log())
            if not log.entries:
                self._first_of.setdefault(number, {})[key] = None
            log.entries.append((number, text))
            self._needed_bytes += len(text)

    def _give_up(self, key: int) -> None:
        """Need nothing of a stream from before its compaction began."""
        log = self._logs[key]
        if log.restated_from:
            self._pop(key, before=log.restated_from)
            self._first_of.setdefault(log.entries[0][0], {})[key] = None
            log.restated_from = 0

    def _pop(self, key: int, *, before: int) -> None:
        log = self._logs.get(key)
        if log is None or not log.entries:
            return
        first = log.entries[0][0]
        keys = self._first_of[first]
        del keys[key]
        if not keys:
            del self._first_of[first]
        while log.entries and log.entries[0][0] < before:
            self._needed_bytes -= len(log.entries.popleft()[1])


def _read(connection: Connection) -> tuple[set[int], list[tuple[int, bytes]]]:
    """Read all rows in order, and the keys of the streams that there are."""
    there = set(connection.scalars(select(streams.c.key)))
    query = select(changelog.c.number, changelog.c.entry).order_by(changelog.c.number)
    rows = connection.execute(
        query.where(changelog.c.stream_key == SHARED_KEY), execution_options=_IN_PARTS
    )
    return there, [(number, text) for number, text in rows]


def _last_number(connection: Connection) -> int:
    """Find the newest row; 0 if there is none."""
    return connection.scalar(select(func.max(changelog.c.number))) or 0
