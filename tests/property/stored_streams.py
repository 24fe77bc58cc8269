"""Streams that store what happens to them in a changelog, and a list in memory to compare with."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Literal, Protocol, TypeAlias

from sqlalchemy import Connection, delete, insert

from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.schema import metadata, streams
from controller.store import streams as storage
from controller.store.changelog import Changelogs
from tests.property.memory import Memory
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.changes import Changes, StoredAggregation
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.errors import OutcomeUnknownError, UnavailableError
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
LATE = 10_000

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
        self.deleted = self.compacts = False
        self.plain = Memory()
        self.changes: Changes | None = None
        """What the present transaction writes."""

    def act(self, batch: Batch, acts: Iterable[Act]) -> None:
        for one in acts:
            one.run(self.core, self.house.now)
        batch.touch(self)

    def delete(self, batch: Batch) -> None:
        self.deleted = True
        batch.write(partial(storage.delete_stream, stream_key=self.key))
        batch.touch(self)

    def compact(self, batch: Batch) -> None:
        self.compacts = True
        batch.touch(self)

    def before_commit(self, batch: Batch) -> None:
        self.house.touched.append(self)
        if self.deleted:
            self.house.store.forget(self.key)
            return
        self.core.run_pass(self.house.now)
        self.changes = self.core.take_changes(compact=self.compacts)
        self.compacts = False
        if self.changes:
            self.house.store.add(batch, self.key, self.changes)

    def after_commit(self) -> None:
        if self.deleted:
            self.house.forget(self)

    async def reload(self) -> None:
        stored = await self.house.database.read(self._read)
        self.deleted = stored is None
        if stored is None:
            self.house.forget(self)
        else:
            self.core = stored

    def check(self, found: StoredAggregation) -> None:
        """What is stored, in the database and in memory, is what this aggregation is."""
        stored, plain = self._restored(found), self._restored(self.plain.stored())
        seen = [self._seen(one) for one in (self.core, stored, plain)]
        assert seen[0] == seen[1] == seen[2]
        assert self._go_on(stored) == self._go_on(plain)

    def _seen(self, core: Aggregator) -> object:
        """What can be seen of it; how long a writer was silent is not stored exactly."""
        statuses = [
            replace(one, silent_ms=0) for one in core.inspect(self.house.now).statuses()
        ]
        return core.newest, sorted(statuses, key=lambda one: one.writer)

    def _go_on(self, core: Aggregator) -> object:
        """Let all writers report and look what comes of it."""
        for status in list(core.inspect(self.house.now).statuses()):
            core.note_time(
                status.writer, LATE, {}, incarnation=status.incarnation, now=self.house.now
            )
        return core.run_pass(self.house.now)

    def _read(self, connection: Connection) -> Aggregator | None:
        if not storage.read_streams(connection, [self.key]):
            return None
        (stored,) = self.house.store.restore(connection, [self.key])
        return self._restored(stored)

    def _restored(self, stored: StoredAggregation) -> Aggregator:
        return Aggregator.restore(NAME, self.core.settings, TOPOLOGY, stored)


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

    acts: Sequence[tuple[int, Sequence[Act]]]
    compacted: Sequence[int]
    deleted: Sequence[int]
    fate: Fate


@dataclass
class House:
    """The streams with what stores them."""

    database: Database
    now: Now = field(default_factory=lambda: Now(0, 0))
    slots: dict[int, Stream] = field(default_factory=dict)
    last_key: int = 0
    touched: list[Stream] = field(default_factory=list)
    """By the present transaction."""

    def __post_init__(self) -> None:
        self._failing = Failing(self.database)

    def forget(self, stream: Stream) -> None:
        self.slots = {at: one for at, one in self.slots.items() if one is not stream}

    async def start(self) -> None:
        """Start as a service does on what is stored; deleted streams are purged by now."""
        self.last_key = await self.database.read(storage.last_stream_key)
        self.store = Changelogs()
        for stream in list(self.slots.values()):
            await stream.reload()
        self.sequencer = Sequencer(self._failing)  # type: ignore[arg-type]
        self._running = self.sequencer.start()

    async def restart(self) -> None:
        await self.sequencer.close()
        await self.database.change(_purge)
        await self.start()

    async def take(self, turn: Turn, wait_ms: int) -> None:
        """Run one batch, and look whether what is stored is what there is."""
        self.now = Now(self.now.wall_ms + wait_ms, self.now.listening_ms + wait_ms)
        self._failing.fate, self.touched = turn.fate, []
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
        for stream in self.touched if turn.fate != "lost" else ():
            if stream.changes is not None:
                stream.plain.apply(stream.changes)
        for stream in self.touched:
            stream.changes = None
            if turn.fate != "stored":  # what was being compacted begins anew
                stream.plain.restated = 0
        await self.check()

    async def check(self) -> None:
        await self.database.read(self._check)

    def _check(self, connection: Connection) -> None:
        """Check all streams as a start reads them, beside rows of deleted ones."""
        by_key = {stream.key: stream for stream in self.slots.values()}
        keys = sorted(by_key)
        for key, found in zip(keys, self.store.restore(connection, keys), strict=True):
            by_key[key].check(found)

    def _decisions(self, turn: Turn) -> Iterable[Callable[[Batch], None]]:
        compacted = [self.slots[slot] for slot in turn.compacted if slot in self.slots]
        yield from (one.compact for one in compacted)
        for slot, acts in turn.acts:
            if slot not in self.slots:
                yield partial(self._create, slot)
            yield partial(self._act, slot, acts)
        for slot in turn.deleted:
            if slot in self.slots:
                yield self.slots[slot].delete

    def _create(self, slot: int, batch: Batch) -> None:
        if slot not in self.slots:
            self.last_key += 1
            self.slots[slot] = Stream(self, self.last_key)
            batch.write(partial(_insert_stream, self.last_key))

    def _act(self, slot: int, acts: Iterable[Act], batch: Batch) -> None:
        self.slots[slot].act(batch, acts)


def empty(connection: Connection) -> None:
    """Remove whatever a test before this one left."""
    for table in metadata.sorted_tables:
        connection.execute(delete(table))


def _insert_stream(key: int, connection: Connection) -> None:
    texts = dict.fromkeys(("scope", "stream", "stream_id", "config", "topology"), str(key))
    connection.execute(insert(streams).values(key=key, created_ms=0, **texts))


def _purge(connection: Connection) -> None:
    tables = metadata.sorted_tables
    while storage.purge(connection, tables, limit=1_000):
        pass
