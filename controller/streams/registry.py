"""The streams that this controller holds, by name."""

import asyncio
from collections.abc import Callable, Iterator
from heapq import nsmallest
from typing import Any

from sqlalchemy import Connection, Row

from controller.access.limits import Limits
from controller.clocks import Clocks
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.log.embedded import EmbeddedLog
from controller.log.external import ExternalLog
from controller.store import streams as storage
from controller.store.changelog import Changelogs
from controller.store.truncation import Truncation
from controller.streams import load as loading
from controller.streams.stream import Identity, StreamState, settings_of
from tidegauge.aggregation.changes import StoredAggregation
from tidegauge.aggregation.outcomes import PassOutcome
from tidegauge.aggregator import Aggregator
from tidegauge.errors import UnknownStreamError
from tidegauge.names import StreamName
from tidegauge.wire.streams import StreamConfig, TopologyInfo

_AT_ONCE = 1_000
"""Streams whose memory is released while all others wait: some milliseconds."""


class Registry:
    """All streams of a controller, and what they use of it."""

    def __init__(
        self,
        database: Database,
        sequencer: Sequencer,
        clocks: Clocks,
        limits: Limits,
        changelogs: Changelogs,
    ) -> None:
        self.sequencer = sequencer
        self.clocks = clocks
        self.limits = limits
        self.changelogs = changelogs
        self.ticking: set[StreamState] = set()
        """In which the clock of a writer runs, as far as is durable."""
        self.on_pass: Callable[[PassOutcome, float], None] = lambda _outcome, _seconds: None
        """Called with the outcome of every pass, and the seconds that it took."""
        self.last_key = 0
        """The highest one."""
        self._database = database
        self._by_name: dict[StreamName, StreamState] = {}

    def __iter__(self) -> Iterator[StreamState]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: StreamName) -> StreamState | None:
        """Return a stream, also one whose creation is not durable yet."""
        return self._by_name.get(name)

    def get(self, name: StreamName, stream_id: str | None = None) -> StreamState:
        """Return a durable stream."""
        state = self._by_name.get(name)
        if state is None or not state.durable:
            raise UnknownStreamError(str(name))
        state.check_id(stream_id)
        return state

    def add(self, state: StreamState) -> None:
        """Add a stream."""
        self._by_name[state.identity.name] = state
        self.last_key = max(self.last_key, state.identity.key)

    def remove(self, state: StreamState) -> None:
        """Remove a stream, unless another has its name by now."""
        if self._by_name.get(state.identity.name) is state:
            del self._by_name[state.identity.name]
        self.ticking.discard(state)
        state.let_go()

    async def clear(self) -> None:
        """Release the memory of all streams, with turns for others in between."""
        for index, state in enumerate(list(self._by_name.values())):
            if index % _AT_ONCE == 0:
                await asyncio.sleep(0)
            self.remove(state)

    def page(
        self, after: StreamName | None, limit: int, *, of: Callable[[str], object]
    ) -> list[StreamState]:
        """List durable streams in order of name, after one, of the scopes that ``of`` accepts."""
        names = (
            name
            for name, state in self._by_name.items()
            if state.durable and (after is None or name > after) and of(name.scope)
        )
        return [self._by_name[name] for name in nsmallest(limit, names)]

    async def reload(self, state: StreamState) -> None:
        """Make a stream what the disk says, where it may be gone."""
        (restored,) = await self.restore([state.identity.key]) or (None,)
        if restored is not None:
            self.add(state)
            state.become(restored)
        else:
            state.deleted = True
            self.remove(state)

    async def restore(self, keys: list[int] | None = None) -> list[StreamState]:
        """Read streams from disk, all or those of some keys that are there; they are not added."""

        def read(connection: Connection) -> list[StreamState]:
            rows = storage.read_streams(connection, keys)
            stored = self.changelogs.restore(connection, [row.key for row in rows])
            return [
                _read_stream(connection, row, self, stored=aggregation)
                for row, aggregation in zip(rows, stored, strict=True)
            ]

        return await self._database.read(read, patient=True)

    async def restore_all(self) -> None:
        """Add every stream there is."""
        # No new stream gets the key of a deleted one, whose rows may not be removed yet.
        self.last_key = await self._database.read(storage.last_stream_key)
        for state in await self.restore():
            state.durable = True
            self.add(state)


def _read_stream(
    connection: Connection, row: Row[Any], host: Registry, *, stored: StoredAggregation
) -> StreamState:
    name = StreamName(row.scope, row.stream)
    config = StreamConfig.model_validate_json(row.config)
    topology = TopologyInfo.model_validate_json(row.topology).to_topology()
    aggregator = Aggregator.restore(str(name), settings_of(config), topology, stored)
    log: EmbeddedLog | ExternalLog = ExternalLog()
    if config.log == "embedded":
        truncation = Truncation.load(row.truncation)
        log = EmbeddedLog.read(connection, row.key, topology, truncation)
    identity = Identity(row.key, name, row.stream_id, row.created_ms)
    state = StreamState(identity, config, aggregator, log, host)
    loading.restore(state, row.load)
    return state
