"""What this controller holds: its share of the streams and reader groups, in memory.

A stream is given up by a transaction in the order of all changes, so that whoever takes it sees
every one of them, and later calls get an error that says to ask again. A controller that takes a
stream reads it back before it answers anybody.
"""

import asyncio
import logging
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy import Connection, Table

from controller.cluster.membership import Membership
from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database.postgresql import PostgresDatabase
from controller.groups import Group, Groups, read_groups
from controller.logs.deduplication import LogOnce
from controller.store import leases as storage
from controller.store import streams as stored
from controller.store.leases import Found, Shares
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from tidegauge.errors import TidegaugeError
from tidegauge.names import StreamName

_log = logging.getLogger(__name__)
_CHECK_MS = 1_000
"""News comes at once; a check without any finds what a lost notice would have said."""
_SOONEST_MS = 20
"""After the end of a lease, which may be renewed late, and is then checked again."""
_GONE_S = 0.1  # a call waits for it, and its lease may have run out without any notice
_AT_ONCE = 100
"""Streams read back in one transaction: the first are answered for while others are read."""


@dataclass(eq=False)
class SharedOwnership:
    """An even share of the streams and groups of a database that controllers share."""

    membership: Membership
    registry: Registry
    groups: Groups
    _sequencer: Sequencer
    _database: PostgresDatabase
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    addresses: dict[int, str] = field(default_factory=dict)
    _looks: int = 0
    _taken: dict[int, int] = field(default_factory=dict)
    """Keys of streams that are not held yet, and listening time when they were taken."""
    _rest_ms: int = _CHECK_MS
    _stored: int = 0
    _stored_here: int = 0

    def __post_init__(self) -> None:
        self.lease, self._listening = self.membership, self.registry.clocks.listening
        self._not_looked = LogOnce(_log)

    @property
    def streams(self) -> Sized:
        """The streams that were stored at the latest check, and those made here since."""
        made = len(self.registry) - self._stored_here
        return range(self._stored + max(0, made))

    async def stored_listening(self) -> int:
        """Begin at 0: every stream has its own listening time beyond that of its holder."""
        return 0

    async def start(self) -> None:
        """Join the other controllers and take a share."""
        await self.membership.start(self._listening, self._forget_all)
        await self._check()
        looking = asyncio.create_task(self._look_forever(), name="looking after holders")
        self.tasks = [looking, *self.membership.tasks]

    async def stop(self) -> None:
        """Stop: neither take nor release anything any more."""
        for task in self.tasks[:1]:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def leave(self) -> None:
        """Release everything."""
        await self.membership.leave()

    async def new_stream_key(self) -> int:
        """Choose a key that no controller chose before."""
        return await self._database.read(storage.new_stream_key)

    def keep_stamp(self, stamp_ms: int) -> None:
        """Do nothing: the lease is renewed with it."""

    async def find(self, table: Table, name: StreamName) -> Found | None:
        """Return the holder of a stream or reader group; None if it is not there."""
        return await self._database.read(partial(storage.find_holder, table=table, name=name))

    async def until_gone(self, controller: int) -> None:
        """Wait until another controller is known to have lost its lease.

        The race: this controller leaves the others while it waits, and there is no news any more. So
        it looks by the clock.
        """
        was_there, enough = controller in self.addresses, self._looks + 2
        while controller in self.addresses or not (was_there or self._looks >= enough):  # noqa: ASYNC110 (there may be no news)
            await asyncio.sleep(_GONE_S)

    async def _forget_all(self) -> None:
        """Forget everything that is held.

        The race: reports wait for the next batch. Were this a part of it, nothing would be
        left to write, and they would be answered as if they were stored. Between two batches
        none is decided, and those that wait are refused.
        """

        def forget() -> None:
            for state in list(self.registry):
                self.registry.move_away(state)
            self.groups.forget()
            self._taken.clear()

        await self._sequencer.read(forget)

    async def _look_forever(self) -> None:
        while True:
            seen = self.membership.notices
            try:
                await self._check()
            except TidegaugeError as error:
                self._not_looked.log(f"holders were not looked at: {error}")
            else:
                self._not_looked.end()
            await self.membership.await_news(seen, wait_ms=self._rest_ms)

    async def _check(self) -> None:
        """End what is dead, give up what is too much, take what is missing, read it back."""
        await self._database.change_aside(storage.reap_controllers)
        shared = await self._database.read(storage.read_shares, patient=True)
        self._looks += 1
        self.addresses = shared.addresses
        me = self.membership.controller
        self._stored = sum(shared.streams.values())
        self._stored_here = shared.streams.get(me, 0)
        self._rest_ms = min(_CHECK_MS, max(_SOONEST_MS, int(shared.next_expiry_ms) + 1))
        if me in shared.addresses:
            await self._balance(shared, me)
            await self._read_back(me)

    async def _balance(self, shared: Shares, me: int) -> None:
        def missing(counts: Mapping[int | None, int]) -> int:
            """Return how many this controller should take, or release if negative."""
            held = {one: counts.get(one, 0) for one in shared.addresses}
            return shares(held, sum(counts.values()))[me] - held[me]

        streams, groups = missing(shared.streams), missing(shared.groups)
        # The newest go: what was held for longest, and most call about here, stays.
        for state in list(self.registry)[streams:] if streams < 0 else ():
            await self._sequencer.submit(partial(self._give_up_stream, state))
        for group in list(self.groups)[groups:] if groups < 0 else ():
            await self._sequencer.submit(partial(self._give_up_group, group))
        if max(streams, groups) <= 0:
            return

        def take(connection: Connection) -> dict[int, int]:
            """Take some; until they are held, no report is accepted, and so their clocks stand."""
            now_ms, most = self._listening.now_ms(), (max(0, streams), max(0, groups))
            return dict.fromkeys(
                storage.take(connection, me, *most, listening_ms=now_ms), now_ms
            )

        taken = await self._database.change_aside(take)
        self._stored_here += len(taken)
        self._taken |= taken

    def _give_up_stream(self, state: StreamState, batch: Batch) -> None:
        """Release a stream.

        The race: the connection is lost during the commit, which may have come to something.
        So a failure brings nothing back; what is still held then is found by the next check.
        """
        if state.deleted or not state.durable:
            return
        state.before_commit(batch)
        self.registry.move_away(state)

        def release(connection: Connection) -> None:
            now_ms = self._listening.now_ms()
            storage.release_stream(connection, state.identity.key, listening_ms=now_ms)

        batch.write(release)
        batch.touch(state)
        _log.info("stream given up", extra={"stream": str(state.identity.name)})

    def _give_up_group(self, group: Group, batch: Batch) -> None:
        if group.durable and not (group.deleted or group.moved):
            self.groups.release(group)
            batch.write(partial(storage.release_group, name=group.name))

    async def _read_back(self, me: int) -> None:
        """Read what this controller holds, and has not in memory.

        The race: something is deleted meanwhile. What was in memory before, or is removed in
        between, is left alone, so that it does not come back.
        """
        registry, groups = self.registry, self.groups
        await self._sequencer.read(registry.removed.clear)
        await self._sequencer.read(groups.removed.clear)
        known = {state.identity.key for state in registry}
        list_held = partial(storage.held_streams, controller=me)
        held = await self._database.read(list_held, patient=True)
        missing = [key for key in held if key not in known]
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            self._hold(await self.registry.restore(some), me)
        list_groups = partial(read_groups, holder=me)
        for group in await self._database.read(list_groups, patient=True):
            known_by_now = group.name in groups or group.name in groups.removed
            if me == self.membership.controller and not known_by_now:
                groups.add(group)

    def _hold(self, states: list[StreamState], me: int) -> None:
        """Hold streams from now on, unless the lease was lost while they were read."""
        registry, begun, now_ms = self.registry, [], self._listening.now_ms()
        for state in states:
            known_by_now = registry.find(state.identity.name) is not None
            is_lost = me != self.membership.controller
            if is_lost or known_by_now or state.identity.key in registry.removed:
                state.let_go()
                if not known_by_now:  # else the changelog is that of the one in memory
                    registry.drop_changes(state)
                continue
            state.durable = True
            registry.add(state)
            begun.append(state)
            # The clocks of a stream continue from where they were when it was taken.
            state.skip_listening(now_ms - self._taken.pop(state.identity.key, now_ms))
        if not states:
            return

        def decide(batch: Batch) -> None:
            here = [state for state in begun if not state.deleted]
            offsets = [(state.identity.key, state.listening_offset_ms) for state in here]
            batch.write(partial(stored.write_offsets, offsets=offsets), rows=len(offsets))
            for state in here:
                batch.touch(state)

        self._sequencer.submit_quietly(decide)
        self.membership.notify_all()


def shares(held: Mapping[int, int], total: int) -> dict[int, int]:
    """Share out ``total``, those without a holder included, so that as few as possible move.

    Tells by controller how many it should hold; they differ by one at most.
    """
    fewest, more = divmod(total, len(held))
    order = sorted(held, key=lambda controller: (-held[controller], controller))
    return {controller: fewest + (rank < more) for rank, controller in enumerate(order)}
