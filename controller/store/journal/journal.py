"""A journal in front of the tables, as log-structured stores have it.

A transaction that changes 500 streams a little would touch thousands of places on the disk, for
what is stored of each stream lies together and apart from others. So it writes one row, with
what it changed in all of them, and what is *recent* of each stream is kept in memory too. It is
*moved* into the tables, all that is recent of one stream together, once that is worth it, or the
journal has grown long: then from the streams that have waited for longest, so that the oldest
rows can be deleted: twice as much as comes in, so that room is made in the end, and no
transaction has to wait for much.

Tables, journal and memory agree after every transaction. What is stored of a stream is what its
tables say, and then what is recent; both are read together.
"""

from dataclasses import dataclass, field
from itertools import islice

from sqlalchemy import Connection

from controller.commit.batch import Batch
from controller.database import Database
from controller.store.aggregations import write_changes
from controller.store.changes import StreamChanges
from controller.store.journal import storage
from controller.store.journal.change_store import ChangeStore
from controller.store.journal.contents import Contents
from controller.store.journal.storage import Entry, Recorded, merged

_ENOUGH = 128
"""So many rows of one stream are always worth to be moved; of some, half of them."""
_MOST = 1_000_000
"""Beyond so many rows the oldest are moved; a start reads them back in some seconds."""
_TIMES_AS_MUCH = 2
"""Of what comes in, as much is moved to make room, so that it is made in the end."""


@dataclass(slots=True)
class _Draft:
    """What the present batch does."""

    recorded: list[Recorded] = field(default_factory=list)
    """What goes onto the journal."""
    direct: list[StreamChanges] = field(default_factory=list)
    """What goes into the tables at once."""
    moved: dict[int, None] = field(default_factory=dict)
    """Keys of streams whose recent changes go into the tables."""
    dropped: dict[int, None] = field(default_factory=dict)
    """Keys of streams that are deleted."""
    freed: int = 0
    """How many of the oldest entries can be deleted then."""

    @property
    def settled(self) -> list[int]:
        """Keys of streams of which nothing matters any more that is in the journal."""
        return [*self.moved, *self.dropped]

    @property
    def has_entry(self) -> bool:
        """Whether it changes the journal."""
        return bool(self.recorded or self.moved or self.dropped)


class Journal(ChangeStore):
    """Stores changes in one row a transaction, and later in the tables.

    Parameters
    ----------
    database
        Where it is; no other process writes there.
    enough
        So many short rows of one stream are always worth to be moved; of some, half of them.
    most
        Beyond so many the oldest are moved, as fast as others come.
    """

    def __init__(self, database: Database, *, enough: int = _ENOUGH, most: int = _MOST) -> None:
        self._database = database
        self._enough, self._most = enough, most
        self._draft: _Draft | None = None
        self._contents = Contents()

    async def read_back(self) -> None:
        """Find out what is not in the tables; the race: streams are looked at meanwhile."""
        self._contents = await self._database.read(Contents.read)

    def recent(self, stream_key: int) -> StreamChanges:
        """Tell what is stored of a stream, but not in its tables; not to be changed."""
        found = self._contents.recent.get(stream_key)
        return merged(stream_key, () if found is None else found.texts)

    def add(self, batch: Batch, changes: StreamChanges) -> None:
        """Store what happened to a stream; at most once a batch for each."""
        draft, key = self._draft_for(batch), changes.stream_key
        enough = self._enough_of(key)
        if changes.count < enough:
            recorded = Recorded.of(changes)
            recent = self._contents.recent.get(key)
            if recorded.rows + (0 if recent is None else recent.rows) < enough:
                draft.recorded.append(recorded)
                batch.rows += recorded.length
                return
        draft.direct.append(changes)
        batch.rows += changes.count
        self.move(batch, key)

    def move(self, batch: Batch, stream_key: int) -> None:
        """Store in the tables what is not there yet of a stream."""
        recent = self._contents.recent.get(stream_key)
        if recent is not None:
            self._draft_for(batch).moved[stream_key] = None
            batch.rows += recent.rows

    def drop(self, batch: Batch, stream_key: int) -> None:
        """Let a stream go that is deleted."""
        if stream_key in self._contents.recent:
            self._draft_for(batch).dropped[stream_key] = None

    def before_commit(self, batch: Batch) -> None:
        """Come after all streams, so that it is read back before they are."""
        del batch.touched[self]
        batch.touch(self)

    def after_commit(self) -> None:
        """Take note that the batch is stored."""
        draft, self._draft = self._draft, None
        if draft is None or not draft.has_entry:
            return
        self._contents.free(draft.freed)
        self._contents.take_in(self._contents.last + 1, Entry(draft.settled, draft.recorded))

    async def reload(self) -> None:
        """Become what the disk says; a batch that failed may have been stored."""
        self._draft = None
        if await self._database.read(storage.last_number) != self._contents.last:
            await self.read_back()

    def _enough_of(self, stream_key: int) -> int:
        """Tell how many rows of a stream are worth to be moved: not as many of each.

        Streams whose writers report equally often would all be moved at the same time.
        """
        half = self._enough // 2
        return self._enough - stream_key % (half + 1)

    @property
    def _limit(self) -> int:
        """Beyond so many rows the oldest are moved."""
        return min(self._enough * len(self._contents.recent), self._most)

    def _draft_for(self, batch: Batch) -> _Draft:
        if self._draft is None:
            self._draft = _Draft()
            batch.write_together(self._write, self._draft)
            batch.touch(self)
            if self._contents.rows > self._limit:
                # It makes room, and the last stream that is moved for it may be a full one.
                batch.rows += 2 * self._enough
        return self._draft

    def _write(self, connection: Connection, drafts: list[_Draft]) -> None:
        (draft,) = drafts
        self._make_room(draft)
        write_changes(connection, [self.recent(key) for key in draft.moved])
        write_changes(connection, draft.direct)
        if draft.has_entry:
            entry = Entry(draft.settled, draft.recorded)
            storage.write_entry(connection, self._contents.last + 1, entry)
            freed = [one.number for one in islice(self._contents.entries, draft.freed)]
            storage.delete_entries(connection, freed)

    def _make_room(self, draft: _Draft) -> None:
        """Have the streams moved that keep the oldest entries, while there are too many."""
        draft.freed = 0
        arrived = sum(one.rows for one in draft.recorded)
        excess = self._contents.rows + arrived - self._limit
        room = _TIMES_AS_MUCH * arrived + self._enough
        settled = draft.moved.keys() | draft.dropped.keys()
        for key, recent in self._contents.recent.items():
            if key in settled:
                continue
            excess -= self._free(draft, recent.first)
            if excess <= 0 or room <= 0:
                return
            draft.moved[key] = None
            room -= recent.rows
        self._free(draft, self._contents.last + 1)

    def _free(self, draft: _Draft, first: int) -> int:
        """Have entries deleted that come before one; tell how many short rows they are."""
        rows, entries = 0, self._contents.entries
        while draft.freed < len(entries) and entries[draft.freed].number < first:
            rows += entries[draft.freed].rows
            draft.freed += 1
        return rows
