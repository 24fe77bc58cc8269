"""The streams in memory: each mirrors its rows and takes part in batches."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from heapq import nsmallest
from math import inf
from time import monotonic
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from controller.access.limits import Limits
from controller.clocks import Clocks
from controller.commit.batch import Batch
from controller.commit.condition import Condition
from controller.database import Database
from controller.log import storage as log_storage
from controller.log.state import SegmentEnds
from controller.store import streams as storage
from controller.store.changelog import ChangeStore
from controller.store.listening import in_holder_time, in_stream_time
from controller.store.marks import StoredMarks
from controller.streams.relocation import MovedError, Relocations
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.changes import StoredAggregation
from tidegauge.aggregation.outcomes import PassOutcome
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.errors import StreamReplacedError, UnknownStreamError
from tidegauge.marks import Mark
from tidegauge.names import StreamName
from tidegauge.topology import Topology
from tidegauge.wire.streams import StreamConfig, TopologyInfo

_ROW_BYTES = 256
_AGAIN_S = 1.0
_STAGGERED_BY = 33
"""Logs of small streams are compacted at 32 to 64 items, of each stream at another number."""


class Identity(NamedTuple):
    """What never changes of a stream."""

    key: int
    name: StreamName
    stream_id: str
    created_ms: int


class StreamState:
    """One stream: its aggregation, the ends of its segments, and who waits for it.

    Parameters
    ----------
    identity
        What never changes.
    config
        Its settings, as the API shows them.
    clock
        Its aggregation.
    ends
        The ends of its segments; None if the log is external.
    context
        What it needs of the service.
    """

    def __init__(
        self,
        identity: Identity,
        config: StreamConfig,
        clock: Aggregator,
        ends: SegmentEnds | None,
        context: "StreamContext",
    ) -> None:
        self.identity = identity
        self.config = config
        self.aggregator = clock
        self.ends = ends
        self.limits = context.limits
        self.changed = Condition()
        self.published: Mark | None = clock.newest
        """The newest mark that is durable."""
        self.published_tails = dict(ends.tails) if ends else None
        """The tails that are durable."""
        self.published_topology = clock.topology
        self.published_config = config
        self.durable = False
        self.deleted = False
        """Whether its deletion is decided."""
        self.moved = False
        """Deleted here alone: another controller holds it."""
        self.listening_offset_ms = 0
        """The stream's listening time beyond that of this controller's clock."""
        self._context = context
        self._is_to_be_compacted = False
        self._last_pass = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at = inf
        self._planned_ms = inf
        """The timer is in time for this deadline and all later ones; infinite without one."""

    @property
    def watermark(self) -> int | None:
        """Of the newest durable mark, ms."""
        return None if self.published is None else self.published.lower

    @property
    def revision(self) -> int:
        """Of the newest durable mark; 0 before the first."""
        return 0 if self.published is None else self.published.revision

    @property
    def final(self) -> bool:
        """Whether a durable mark ends the stream."""
        return self.published is not None and self.published.final

    def check_id(self, stream_id: str | None) -> None:
        """Raise `StreamReplacedError` if the caller means another stream of this name."""
        identity = self.identity
        if stream_id is not None and stream_id != identity.stream_id:
            raise StreamReplacedError(str(identity.name), identity.stream_id, stream_id)

    def refuse_if_deleted(self) -> None:
        """Refuse a change of what is deleted, or was given to another controller.

        Raises
        ------
        UnknownStreamError
            If it is deleted.
        MovedError
            If it moved; asked again, its new holder answers.
        """
        if self.moved:
            raise MovedError(self.identity.name)
        if self.deleted:
            raise UnknownStreamError(str(self.identity.name))

    def before_commit(self, batch: Batch) -> None:
        """Run the pass that is due, and add all that changed to the transaction."""
        if self.deleted:
            self._context.change_store.drop(batch, self.identity.key)
            return
        now = self._context.clocks.now()
        self._run_due_pass(now)
        self._write_changes(batch, now)

    def after_commit(self) -> None:
        """Publish what is durable now, wake who waits, and plan the next pass."""
        self.durable = True
        clock = self.aggregator
        news = self.published is not clock.newest
        news = news or self.published_topology is not clock.topology
        self.published, self.published_topology = clock.newest, clock.topology
        self.published_config = self.config
        if self.ends is not None and self.ends.tails != self.published_tails:
            self.published_tails = dict(self.ends.tails)
            news = True
        if self.deleted:
            self._context.remove(self)
            return
        if news:
            self.changed.notify_all()
        if clock.holds_run:
            self._context.ticking.add(self)
        else:
            self._context.ticking.discard(self)
        self._plan()

    def change_config(self, config: StreamConfig) -> None:
        """Go on with other settings."""
        self.config = config
        self.aggregator.change_settings(settings_of(config))
        self._planned_ms = inf  # the interval of marks may end earlier now

    async def reload(self) -> None:
        """Become what the disk says."""
        if not self.moved:
            await self._context.reload(self)

    def become(self, other: "StreamState") -> None:
        """Take over what was read back from disk."""
        self.deleted = False
        self.aggregator.drop_reports()
        self.config, self.aggregator, self.ends = other.config, other.aggregator, other.ends
        self.listening_offset_ms = other.listening_offset_ms
        self.after_commit()

    def let_go(self) -> None:
        """Be in memory no longer: wake who waits for it, and be held by nothing else."""
        self.changed.notify_all()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._wake_at, self._planned_ms = None, inf, inf
        self.aggregator.drop_reports()

    def skip_listening(self, by_ms: int) -> None:
        """Leave listening time out that went by while nobody was heard."""
        self.aggregator.shift_clocks(by_ms)
        self.listening_offset_ms -= by_ms

    def compact(self) -> None:
        """Have all that is needed of the stream at the end of its changelog."""
        self._is_to_be_compacted = True
        self._context.touch(self)

    def wake_later(self) -> None:
        """Wake up in a while, unless it will anyway: what it woke up for was refused."""
        if self._timer is None and not self.deleted:
            loop = asyncio.get_running_loop()
            self._wake_at = loop.time() + _AGAIN_S
            self._timer = loop.call_at(self._wake_at, self._wake)

    def _run_due_pass(self, now: Now) -> None:
        began = monotonic()
        if began < self._earliest_pass or not self._is_due(now):
            return
        outcome = self.aggregator.run_pass(now)
        ended = monotonic()
        if outcome.marks:
            self._last_pass = ended
        for writer in outcome.forgotten if self.ends is not None else ():
            self.ends.forget(writer)  # type: ignore[union-attr]
        self._context.on_pass(self, outcome, ended - began)

    @property
    def _earliest_pass(self) -> float:
        """When the interval of marks is over, on the monotonic clock."""
        return self._last_pass + self.config.mark_interval_ms / 1_000

    def _is_due(self, now: Now) -> bool:
        if self.aggregator.pass_due:
            return True
        deadline = self.aggregator.next_deadline()
        return deadline is not None and deadline <= now.listening_ms

    def _write_changes(self, batch: Batch, now: Now) -> None:
        key = self.identity.key
        changes = self.aggregator.take_changes(
            stagger=key % _STAGGERED_BY, compact=self._is_to_be_compacted
        )
        self._is_to_be_compacted = False
        if self.listening_offset_ms:
            changes = in_stream_time(changes, self.listening_offset_ms)
        if changes:
            self._context.change_store.add(batch, key, changes, now.wall_ms)
        if changes.entry.holds:
            # A clock must not be found ahead of listening time after a crash.
            batch.write_together(self._context.write_stamps, now.listening_ms)
        if self.ends is None:
            return
        if forgotten := changes.entry.forgotten:
            batch.write(partial(log_storage.forget_sequences, stream_key=key, names=forgotten))
        chunks, sequences = self.ends.take_chunks(), self.ends.take_sequences()
        if chunks or sequences:
            batch.write(
                partial(
                    log_storage.write_appends,
                    stream_key=key,
                    appended=chunks,
                    sequences=sequences,
                ),
                rows=len(sequences) + sum(_rows(len(chunk.data)) for chunk in chunks),
            )

    def _plan(self) -> None:
        """Wake up for the next pass: something is due, or runs out, and its interval is over.

        Listening time is never faster than the loop's, and the interval of marks ends earlier
        than planned only if the settings change: who is woken for one deadline is in time for
        all later ones.
        """
        due, deadline = self.aggregator.pass_due, self.aggregator.next_deadline()
        deadline_ms = inf if deadline is None else deadline
        if deadline_ms >= self._planned_ms and not due:
            return
        delay = max(0.001, self._earliest_pass - monotonic())
        if not due:
            delay = max(delay, (deadline_ms - self._context.clocks.now().listening_ms) / 1_000)
        loop = asyncio.get_running_loop()
        wake_at = loop.time() + delay
        if self._wake_at <= wake_at:
            self._planned_ms = min(self._planned_ms, deadline_ms)
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wake_at, self._planned_ms = wake_at, deadline_ms
        self._timer = loop.call_at(wake_at, self._wake)

    def _wake(self) -> None:
        self._timer, self._wake_at, self._planned_ms = None, inf, inf
        if not self.deleted:
            self._context.touch(self)


def _rows(size: int) -> int:
    return 1 + size // _ROW_BYTES


class StreamContext(NamedTuple):
    """What a stream needs of the service around it."""

    clocks: Clocks
    limits: Limits
    touch: Callable[[StreamState], None]
    reload: Callable[[StreamState], Any]
    remove: Callable[[StreamState], None]
    on_pass: Callable[[StreamState, PassOutcome, float], None]
    write_stamps: Callable[[Connection, Sequence[int]], None]
    change_store: ChangeStore
    ticking: set[StreamState]
    """Those in which the clock of a writer runs, as far as is durable."""


class Registry:
    """All streams by name."""

    def __init__(self) -> None:
        self._by_name: dict[StreamName, StreamState] = {}
        self._last_key = 0
        self.relocations = Relocations()
        self.ticking: set[StreamState] = set()
        """Those in which the clock of a writer runs, as far as is durable."""
        self.removed: set[int] = set()
        """Keys of streams removed since whoever is interested in them last cleared it."""

    def __iter__(self) -> Iterator[StreamState]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: StreamName) -> StreamState | None:
        """Look a stream up, also one whose creation is not durable yet."""
        return self._by_name.get(name)

    def get(self, name: StreamName) -> StreamState:
        """Look a durable stream up, or raise `UnknownStreamError`.

        Raises
        ------
        MovedError
            If it moved to another controller a moment ago.
        """
        state = self._by_name.get(name)
        if state is None or not state.durable:
            self.relocations.check(name)
            raise UnknownStreamError(str(name))
        return state

    def skip_keys(self, up_to: int) -> None:
        """Give no new stream a key that another had, whose rows may not be removed yet."""
        self._last_key = max(self._last_key, up_to)

    def next_key(self) -> int:
        """Choose the key of a new stream."""
        return self._last_key + 1

    def add(self, state: StreamState) -> None:
        """Add a stream."""
        self._by_name[state.identity.name] = state
        self._last_key = max(self._last_key, state.identity.key)

    def remove(self, state: StreamState) -> None:
        """Remove a stream, unless another has its name by now."""
        if self._by_name.get(state.identity.name) is state:
            del self._by_name[state.identity.name]
        self.ticking.discard(state)
        self.removed.add(state.identity.key)
        state.let_go()

    def move_away(self, state: StreamState) -> None:
        """Answer for a stream no more: another controller does."""
        state.deleted = state.moved = True
        self.remove(state)
        self.relocations.add(state.identity.name)

    def page(
        self, after: StreamName | None, limit: int, *, of: Callable[[str], object]
    ) -> list[StreamState]:
        """List durable streams in order of name, after one, of scopes that are wanted."""
        wanted = (
            name
            for name, state in self._by_name.items()
            if state.durable and (after is None or name > after) and of(name.scope)
        )
        return [self._by_name[name] for name in nsmallest(limit, wanted)]


def settings_of(config: StreamConfig) -> StreamSettings:
    """Pick the settings that steer the aggregation."""
    names = asdict(StreamSettings())
    return StreamSettings(**{name: getattr(config, name) for name in names})


def restore_stream(
    connection: Connection, row: Row[Any], context: StreamContext
) -> StreamState:
    """Read a stream with all that belongs to it."""
    name = StreamName(row.scope, row.stream)
    config = StreamConfig.model_validate_json(row.config)
    topology = read_topology(row.topology)
    stored = context.change_store.restore(connection, row.key)
    stored = in_holder_time(stored, row.listening_ms)
    clock = Aggregator.restore(str(name), settings_of(config), topology, stored)
    ends = None
    if config.log == "embedded":
        ends = log_storage.read_ends(connection, row.key, topology)
    identity = Identity(row.key, name, row.stream_id, row.created_ms)
    state = StreamState(identity, config, clock, ends, context)
    state.listening_offset_ms = row.listening_ms
    return state


def visit_stream(connection: Connection, row: Row[Any], context: StreamContext) -> StreamState:
    """Read what is known of a stream that another controller holds; not to be changed."""
    name = StreamName(row.scope, row.stream)
    config = StreamConfig.model_validate_json(row.config)
    topology = read_topology(row.topology)
    stored = StoredAggregation(newest=StoredMarks(connection, row.key).newest)
    clock = Aggregator.restore(str(name), settings_of(config), topology, stored)
    ends = None
    if config.log == "embedded":
        ends = log_storage.read_tails(connection, row.key, topology)
    identity = Identity(row.key, name, row.stream_id, row.created_ms)
    return StreamState(identity, config, clock, ends, context)


def write_topology(topology: Topology) -> str:
    """Write a topology as it is stored."""
    return TopologyInfo.of(topology).model_dump_json()


def read_topology(text: str) -> Topology:
    """Read a stored topology."""
    return TopologyInfo.model_validate_json(text).to_topology()


async def restore_all(database: Database, registry: Registry, context: StreamContext) -> None:
    """Read every stream there is."""

    def read(connection: Connection) -> list[StreamState]:
        rows = storage.read_streams(connection)
        return [restore_stream(connection, row, context) for row in rows]

    registry.skip_keys(await database.read(storage.last_stream_key))
    for state in await database.read(read):
        state.durable = True
        registry.add(state)
