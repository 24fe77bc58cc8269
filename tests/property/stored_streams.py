"""Streams that store what happens to them twice: through a journal, and straight into tables."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Literal, Protocol, TypeAlias

from sqlalchemy import Connection, delete, insert, select

from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.schema import marks, metadata, report_pages, streams
from controller.store import streams as storage
from controller.store.aggregations import read_clock, write_changes
from controller.store.changes import StreamChanges
from controller.store.journal import Journal
from controller.store.journal.storage import read_entries
from controller.store.marks import StoredMarks, delete_marks
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.changes import StoredAggregation
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.errors import OutcomeUnknownError, UnavailableError
from tidegauge.marks import Mark
from tidegauge.topology import Topology

NAME = "scope/stream"
TOPOLOGY = Topology.of_partitions(2)
SETTINGS: dict[str, int | None] = {
    "aggregation_timeout_ms": 3,
    "mark_interval_ms": 0,
    "mark_resolution_ms": 0,
    "max_future_skew_ms": None,
    "writer_retention_ms": 3,
}
SLOTS = 3

Fate: TypeAlias = Literal["stored", "lost", "stored, but not answered"]
"""What becomes of a transaction."""


def make_settings(**given: int | None) -> StreamSettings:
    return StreamSettings(**SETTINGS | given)  # type: ignore[arg-type]


class Act(Protocol):
    """Something that happens to the aggregation of a stream."""

    def run(self, core: Aggregator, now: Now) -> None: ...


class Stream:
    """One stream in memory, which takes part in batches as those of the service do."""

    def __init__(self, house: "House", key: int) -> None:
        self.house, self.key = house, key
        self.core = Aggregator(NAME, make_settings(), TOPOLOGY)
        self.deleted = False

    def act(self, batch: Batch, acts: Iterable[Act]) -> None:
        for one in acts:
            one.run(self.core, self.house.now)
        batch.touch(self)

    def create(self, batch: Batch) -> None:
        batch.write(partial(_insert_stream, self.key))
        self.house.plainly(partial(_insert_stream, self.key))

    def delete(self, batch: Batch) -> None:
        self.deleted = True
        batch.write(partial(storage.delete_stream, stream_key=self.key))
        self.house.plainly(partial(storage.delete_stream, stream_key=self.key))
        batch.touch(self)

    def before_commit(self, batch: Batch) -> None:
        if self.deleted:
            self.house.journal.drop(batch, self.key)
            return
        self.core.run_pass(self.house.now)
        if taken := self.core.take_changes():
            changes = StreamChanges.of(self.key, taken, self.house.now.wall_ms)
            self.house.journal.add(batch, changes)
            self.house.plainly(lambda connection: write_changes(connection, [changes]))

    def after_commit(self) -> None:
        if self.deleted:
            self.house.forget(self)

    async def reload(self) -> None:
        stored = await self.restored()
        self.deleted = stored.deleted
        self.core = stored.core
        if stored.deleted:
            self.house.forget(self)

    async def restored(self) -> "Stream":
        """Make the stream that the disk says."""
        stored = Stream(self.house, self.key)
        clock = await self.house.database.read(self._read)
        if clock is None:
            stored.deleted = True
        else:
            settings = self.core.settings
            stored.core = Aggregator.restore(NAME, settings, TOPOLOGY, clock)
        return stored

    def seen(self) -> object:
        """What can be seen of it; how long a writer was silent is not stored exactly."""
        statuses = self.core.inspect(self.house.now).statuses()
        return self.deleted, self.core.newest, [replace(one, silent_ms=0) for one in statuses]

    def _read(self, connection: Connection) -> StoredAggregation | None:
        return _read_clock(connection, self.key, self.house.journal.recent(self.key))


@dataclass
class Failing:
    """A database whose next transactions end as they should."""

    database: Database
    fate: Fate = "stored"
    timeout_s: float = inf

    async def write(self, work: Callable[[Connection], None], *, rows: int) -> None:
        def lose(connection: Connection) -> None:
            work(connection)
            raise UnavailableError("lost")

        await self.database.write(lose if self.fate == "lost" else work, rows=rows)
        if self.fate == "stored, but not answered":
            raise OutcomeUnknownError(self.fate)


@dataclass(frozen=True)
class Turn:
    """What one transaction does, slot by slot; an empty slot gets a new stream."""

    moved: Sequence[int]
    acts: Sequence[tuple[int, Sequence[Act]]]
    swept: Sequence[int]
    deleted: Sequence[int]
    fate: Fate


@dataclass
class House:
    """The streams with their journal, and a database without one to compare with."""

    database: Database
    plain: Connection
    enough: int
    most: int
    now: Now = field(default_factory=lambda: Now(0, 0))
    slots: dict[int, Stream] = field(default_factory=dict)
    keys: int = 0
    """The highest that a stream ever had."""
    last_key: int = 0

    def __post_init__(self) -> None:
        self._failing = Failing(self.database)
        self._plainly: list[Callable[[Connection], None]] = []
        self._compared: dict[int, object] = {}

    def plainly(self, work: Callable[[Connection], None]) -> None:
        """Do the same to the other database, if it comes true."""
        self._plainly.append(work)

    def forget(self, stream: Stream) -> None:
        self.slots = {at: one for at, one in self.slots.items() if one is not stream}

    async def start(self) -> None:
        """Start as a service does on what is stored; deleted streams are purged by now."""
        self.last_key = await self.database.read(storage.last_stream_key)
        self.journal = Journal(self.database, enough=self.enough, most=self.most)
        await self.journal.read_back()
        for stream in list(self.slots.values()):
            await stream.reload()
        self.sequencer = Sequencer(self._failing)  # type: ignore[arg-type]
        self._running = self.sequencer.start()

    async def restart(self) -> None:
        await self.sequencer.close()
        for work in (self.database.change, self._change_plain):
            await work(_purge)
        await self.start()

    async def take(self, turn: Turn, wait_ms: int) -> None:
        """Run one batch, and look whether all is as without a journal."""
        self.now = Now(self.now.wall_ms + wait_ms, self.now.listening_ms + wait_ms)
        self._failing.fate, self._plainly = turn.fate, []
        submitted = [self.sequencer.submit(one) for one in self._decisions(turn)]
        answered = asyncio.gather(*submitted, return_exceptions=True)
        ends: set[asyncio.Future[Any]] = {answered, self._running}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            self._running.result()
        outcomes = await answered
        wanted = {"stored": type(None), "lost": UnavailableError}
        errors = wanted.get(turn.fate, OutcomeUnknownError)
        assert all(isinstance(one, (errors, type(None))) for one in outcomes), outcomes
        if turn.fate != "lost":
            for work in self._plainly:
                await self._change_plain(work)
        await self.check()

    async def check(self) -> None:
        """Compare what is found with what would be found without a journal."""
        fresh = Journal(self.database, enough=self.enough, most=self.most)
        await fresh.read_back()
        for key in range(1, self.keys + 1):
            assert fresh.recent(key) == self.journal.recent(key)
        await self.database.read(self._compare)
        for stream in self.slots.values():
            assert stream.seen() == (await stream.restored()).seen()

    def _decisions(self, turn: Turn) -> Iterable[Callable[[Batch], None]]:
        for slot in turn.moved:
            if slot in self.slots:
                yield partial(self.journal.move, stream_key=self.slots[slot].key)
        for slot, acts in turn.acts:
            if slot not in self.slots:
                yield partial(self._create, slot)
            yield partial(self._act, slot, acts)
        for slot in turn.swept:
            if slot in self.slots:
                yield partial(self._sweep, self.slots[slot].key)
        for slot in turn.deleted:
            if slot in self.slots:
                yield self.slots[slot].delete

    def _create(self, slot: int, batch: Batch) -> None:
        if slot not in self.slots:
            self.last_key += 1
            self.keys = max(self.keys, self.last_key)
            self.slots[slot] = Stream(self, self.last_key)
            self.slots[slot].create(batch)

    def _act(self, slot: int, acts: Iterable[Act], batch: Batch) -> None:
        self.slots[slot].act(batch, acts)

    def _sweep(self, key: int, batch: Batch) -> None:
        """Remove every other mark from the table, but the newest there."""
        batch.write(partial(self._sweep_table, key))

    def _sweep_table(self, key: int, connection: Connection) -> None:
        query = select(marks.c.revision).where(marks.c.stream_key == key)
        there = list(connection.scalars(query.order_by(marks.c.revision)))
        gone = there[:-1:2]
        delete_marks(connection, key, gone)
        self.plainly(lambda plain: delete_marks(plain, key, gone))

    async def _change_plain(self, work: Callable[[Connection], Any]) -> None:
        work(self.plain)

    def _compare(self, connection: Connection) -> None:
        rows = [
            sum(one.rows for one in entry.recorded) for _, entry in read_entries(connection)
        ]
        assert sum(rows[:-1]) <= self.most
        for key in range(1, self.keys + 1):
            recent = self.journal.recent(key)
            expected = found(self.plain, key, StreamChanges.none(key))
            assert found(connection, key, recent) == expected
            if expected is None:
                assert recent == StreamChanges.none(key)
                continue
            plain = _marks(self.plain, key)
            check_disjoint(connection, recent)
            if self._compared.get(key) != (recent.marks, plain):
                compare_marks(StoredMarks(connection, key, recent.marks), plain)
                self._compared[key] = recent.marks, plain


def found(connection: Connection, key: int, recent: StreamChanges) -> object:
    """What a stream is restored from."""
    clock = _read_clock(connection, key, recent)
    return clock and (
        clock.newest,
        clock.marked_ms,
        clock.reporters,
        clock.forgotten_incarnation,
        {one.writer: one for one in clock.writers},
        list(clock.pages),
    )


def check_disjoint(connection: Connection, recent: StreamChanges) -> None:
    """Nothing that is in the tables is kept a second time."""
    key = recent.stream_key
    of_table = {one.revision for one in _marks(connection, key)}
    assert not of_table & {one.revision for one in recent.marks}
    query = select(report_pages.c.page).where(report_pages.c.stream_key == key)
    pages = set(connection.scalars(query)) - set(recent.pages_given_up)
    assert not pages & recent.pages.keys()


def compare_marks(stored: StoredMarks, plain: list[Mark]) -> None:
    """Every look at stored marks finds what a look through all of them does."""
    first = plain[0].revision if plain else 1
    newest = plain[-1] if plain else None
    assert stored.newest == newest
    assert len(stored) == (0 if newest is None else newest.revision - first + 1)
    for at in range(len(stored)):
        assert stored[at] == [one for one in plain if one.revision <= first + at][-1]
    for revision in {first - 1, first, first + len(stored) // 2, first + len(stored) - 1}:
        for limit in (1, 3, 1_000):
            later = [one for one in plain if one.revision > revision]
            assert stored.after(revision, limit) == later[:limit]
    for time in {
        bound + by for one in plain for bound in (one.lower, one.upper) for by in (-1, 0, 1)
    }:
        reached = [one for one in plain if one.lower >= time]
        assert stored.first_from(time) == next(iter(reached), None)
        below = [one for one in plain if one.upper < time]
        assert stored.newest_with_upper_below(time) == next(reversed(below), None)


def empty(connection: Connection) -> None:
    """Remove whatever a test before this one left."""
    for table in metadata.sorted_tables:
        connection.execute(delete(table))


def _marks(connection: Connection, key: int) -> list[Mark]:
    return StoredMarks(connection, key).after(0, 1_000)


def _insert_stream(key: int, connection: Connection) -> None:
    texts = dict.fromkeys(("scope", "stream", "stream_id", "config", "topology"), str(key))
    connection.execute(insert(streams).values(key=key, created_ms=0, **texts))


def _read_clock(
    connection: Connection, key: int, recent: StreamChanges
) -> StoredAggregation | None:
    rows = storage.read_streams(connection, key)
    if not rows:
        return None
    clock = read_clock(connection, rows[0], recent)
    return StoredAggregation(
        clock.newest,
        clock.marked_ms,
        clock.reporters,
        clock.forgotten_incarnation,
        list(clock.writers),
        list(clock.pages),
    )


def _purge(connection: Connection) -> None:
    tables = metadata.sorted_tables
    while leftover := storage.find_leftover(connection, tables, limit=1_000):
        storage.purge(connection, leftover)
