"""The streams that this controller holds, by name."""

from collections.abc import Callable, Collection, Iterator
from heapq import nsmallest

from sqlalchemy import Connection

from controller.access.limits import Limits
from controller.clocks import Clocks
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.store import streams as storage
from controller.store.changelog import ChangeStore
from controller.streams.relocation import Relocations
from controller.streams.restoring import restore_stream, visit_stream
from controller.streams.stream import StreamState
from tidegauge.aggregation.outcomes import PassOutcome
from tidegauge.errors import UnknownStreamError
from tidegauge.names import StreamName


class Registry:
    """All streams of a controller, and what they use of it: the `Host` of each.

    Parameters
    ----------
    database
        Where streams are read back from.
    sequencer
        Makes what happens to them durable.
    clocks
        Of the controller.
    limits
        Of what it takes.
    change_store
        Stores what happened to their aggregations.

    Attributes
    ----------
    relocations
        Streams that moved to another controller a moment ago.
    ticking
        Those in which the clock of a writer runs, as far as is durable.
    removed
        Keys of streams removed since whoever is interested in them last cleared it.
    on_pass
        Called with the outcome of every pass, and the seconds that it took.
    """

    def __init__(
        self,
        database: Database,
        sequencer: Sequencer,
        clocks: Clocks,
        limits: Limits,
        change_store: ChangeStore,
    ) -> None:
        self.sequencer = sequencer
        self.clocks = clocks
        self.limits = limits
        self.change_store = change_store
        self.relocations = Relocations()
        self.ticking: set[StreamState] = set()
        self.removed: set[int] = set()
        self.on_pass: Callable[[PassOutcome, float], None] = lambda _outcome, _seconds: None
        self._database = database
        self._by_name: dict[StreamName, StreamState] = {}
        self._last_key = 0

    def __iter__(self) -> Iterator[StreamState]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: StreamName) -> StreamState | None:
        """Look a stream up, also one whose creation is not durable yet."""
        return self._by_name.get(name)

    def get(self, name: StreamName, stream_id: str | None = None) -> StreamState:
        """Look a durable stream up.

        Raises
        ------
        UnknownStreamError
            If there is none.
        MovedError
            If it moved to another controller a moment ago.
        StreamReplacedError
            If the caller means another one of that name.
        """
        state = self._by_name.get(name)
        if state is None or not state.durable:
            self.relocations.check(name)
            raise UnknownStreamError(str(name))
        state.check_id(stream_id)
        return state

    async def look_at(self, name: StreamName) -> StreamState:
        """Look a stream up, whoever holds it; one that is held elsewhere as the database has it.

        Raises
        ------
        UnknownStreamError
            If there is none.
        """
        if name in self._by_name:
            return self.get(name)

        def visit(connection: Connection) -> StreamState | None:
            row = storage.find_stream(connection, name)
            return None if row is None else visit_stream(connection, row, self)

        visited = await self._database.read(visit)
        if visited is None:
            raise UnknownStreamError(str(name))
        return visited

    def next_key(self) -> int:
        """Choose the key of a new stream, where no other controller chooses any."""
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

    def compact(self, keys: Collection[int]) -> None:
        """Have streams compacted that keep the oldest rows of the changelog."""
        wanted = set(keys)
        for state in list(self):
            if state.identity.key in wanted:
                state.compact()

    def move_away(self, state: StreamState) -> None:
        """Answer for a stream no more: another controller does."""
        state.deleted = state.moved = True
        self.remove(state)
        self.relocations.add(state.identity.name)

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
            return [restore_stream(connection, row, self) for row in rows]

        return await self._database.read(read, patient=True)

    async def restore_all(self) -> None:
        """Hold every stream there is."""
        # No new stream gets the key of a deleted one, whose rows may not be removed yet.
        self._last_key = await self._database.read(storage.last_stream_key)
        for state in await self.restore():
            state.durable = True
            self.add(state)
