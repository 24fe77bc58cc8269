"""Marks that a group comes to need while they are swept stay, whichever controller holds it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection, select

from controller.background.purging import Pace
from controller.background.retention import Sweeper
from controller.database import open_database
from controller.database.statements import insert_rows
from controller.schema import marks, streams
from controller.store import leases
from controller.store.groups import (
    GroupSettings,
    StoredGroup,
    insert_group,
    keep_groups_still,
    update_group,
)
from tests.integration.sessions import connected
from tests.patience import until
from tests.postgres import Cluster
from tidegauge.groups import start
from tidegauge.names import StreamName
from tidegauge.topology import Topology

KEY = 1
NAME, STREAM_ID = "tests/one", "5ed1f1c4"
TOPOLOGY = Topology.of_partitions(1)
SETTINGS = GroupSettings(
    streams=[NAME], stream_ids={NAME: STREAM_ID}, heartbeat_ms=1_000, dead_after_ms=5_000
)
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"


def _group(name: str, offset: int) -> StoredGroup:
    state = start({NAME: TOPOLOGY}, {NAME: {0: offset}})
    return StoredGroup(StreamName("tests", name), SETTINGS, state)


def _prepare(connection: Connection) -> None:
    """Store a stream with a mark at each offset, all of them old, and a group."""
    row = (KEY, "tests", "one", STREAM_ID, 0, "{}", "{}", None, 0, None, None)
    insert_rows(connection, streams, [row])
    rows = [(KEY, n, 1_000 + n, 1_000 + n, f'{{"0":{n}}}', 0) for n in range(1, 51)]
    insert_rows(connection, marks, rows)
    insert_group(connection, _group("slow", 10), None)


def _left(url: str) -> list[int]:
    with connected(url) as connection:
        return list(connection.scalars(select(marks.c.revision).order_by(marks.c.revision)))


class Sweeping:
    """A controller that sweeps, next to another one that stores groups.

    ``before_removing`` happens between what a sweep has read and its transaction.
    """

    def __init__(self, url: str) -> None:
        self.database, self.other = open_database(url), open_database(url)
        self.before_removing: Callable[[], Any] = partial(asyncio.sleep, 0)
        self.state: Any = SimpleNamespace(
            identity=SimpleNamespace(key=KEY, name=NAME, stream_id=STREAM_ID),
            aggregator=SimpleNamespace(topology=TOPOLOGY),
            config=SimpleNamespace(mark_retention_ms=1),
            log=SimpleNamespace(tails=None),
            now=lambda: SimpleNamespace(wall_ms=1_000_000),
        )
        registry, database = cast("Any", [self.state]), cast("Any", self)
        self._sweeper = Sweeper(registry, database, (), Pace(rest=0))
        self.read = self.database.read

    async def change(self, work: Callable[[Connection], Any]) -> Any:
        await self.before_removing()
        return await self.database.change(work)

    async def step(self) -> None:
        assert await self._sweeper.sweep(self.state)

    async def store(self, write: Callable[..., None], group: StoredGroup) -> None:
        """Store a group as the other controller does."""
        await self.other.write(lambda connection: write(connection, group=group), rows=1)


@pytest.fixture
def url(cluster: Cluster) -> str:
    url = cluster.database()
    with connected(url) as connection:
        _prepare(connection)
    return url


@pytest.fixture
def sweeping(url: str) -> Iterator[Sweeping]:
    sweeping = Sweeping(url)
    yield sweeping
    sweeping.database.close()
    sweeping.other.close()


def _insert(connection: Connection, group: StoredGroup) -> None:
    insert_group(connection, group, None)


WRITES = {
    "moves": (update_group, _group("slow", 33)),
    "is created": (_insert, _group("new", 33)),
}


@pytest.mark.parametrize(
    ("write", "group", "kept"),
    [(*WRITES["moves"], [33, 50]), (*WRITES["is created"], [10, 33, 50])],
    ids=WRITES,
)
def test_what_a_group_elsewhere_needs_since_the_sweep_has_read_stays(
    url: str,
    sweeping: Sweeping,
    write: Callable[..., None],
    group: StoredGroup,
    kept: list[int],
) -> None:
    sweeping.before_removing = partial(sweeping.store, write, group)
    asyncio.run(sweeping.step())
    assert _left(url) == kept


def test_a_sweep_does_not_wait_for_a_group_that_is_just_stored_but_tries_again(
    url: str, sweeping: Sweeping
) -> None:
    with connected(url) as connection:
        update_group(connection, _group("slow", 33))
        asyncio.run(sweeping.step())
        assert len(_left(url)) == 50
    asyncio.run(sweeping.step())
    assert _left(url) == [33, 50]


@pytest.mark.parametrize(("write", "group"), WRITES.values(), ids=WRITES)
def test_a_group_is_stored_once_the_marks_are_gone_that_it_would_have_needed(
    cluster: Cluster,
    url: str,
    sweeping: Sweeping,
    write: Callable[..., None],
    group: StoredGroup,
) -> None:
    holding, may_end = threading.Event(), threading.Event()

    def hold(connection: Connection) -> None:
        assert keep_groups_still(connection, KEY)
        holding.set()
        may_end.wait()

    async def scene() -> None:
        held = asyncio.create_task(sweeping.database.change(hold))
        await until(holding.is_set)
        stored = asyncio.create_task(sweeping.store(write, group))
        try:
            await until(lambda: _waits(cluster, url))
            assert not stored.done()
        finally:
            may_end.set()
        await asyncio.gather(held, stored)

    asyncio.run(scene())


def _waits(cluster: Cluster, url: str) -> bool:
    with cluster.connect() as connection:
        return connection.execute(WAITING, (cluster.name_of(url),)).fetchone() is not None


def test_a_stream_is_taken_over_although_a_group_of_it_is_just_stored(url: str) -> None:
    with connected(url) as storing, connected(url) as taking:
        update_group(storing, _group("slow", 33))
        me = leases.join(taking, "", 60_000)
        taken = leases.take(taking, me, streams=1, groups=0, listening_ms=0)
        assert taken == [KEY]
