"""Marks that a group comes to need while they are swept stay."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import Connection, select

from controller.background.purging import Pace
from controller.background.retention import Sweeper
from controller.database.statements import insert_rows
from controller.schema import marks, streams
from controller.store.groups import (
    GroupSettings,
    StoredGroup,
    insert_group,
    update_group,
)
from tests.databases import open_database
from tests.service.sessions import connected
from tidegauge.groups import start
from tidegauge.names import StreamName
from tidegauge.topology import Topology

KEY = 1
NAME, STREAM_ID = "tests/one", "5ed1f1c4"
TOPOLOGY = Topology.of_partitions(1)
SETTINGS = GroupSettings(
    streams=[NAME], stream_ids={NAME: STREAM_ID}, heartbeat_ms=1_000, dead_after_ms=5_000
)


def _group(name: str, offset: int) -> StoredGroup:
    state = start({NAME: TOPOLOGY}, {NAME: {0: offset}})
    return StoredGroup(StreamName("tests", name), SETTINGS, state)


def _prepare(connection: Connection) -> None:
    """Store a stream with a mark at each offset, all of them old, and a group."""
    row = (KEY, "tests", "one", STREAM_ID, 0, "{}", "{}", None, None)
    insert_rows(connection, streams, [row])
    rows = [(KEY, n, 1_000 + n, 1_000 + n, f'{{"0":{n}}}', 0) for n in range(1, 51)]
    insert_rows(connection, marks, rows)
    insert_group(connection, _group("slow", 10))


def _left(url: str) -> list[int]:
    with connected(url) as connection:
        return list(connection.scalars(select(marks.c.revision).order_by(marks.c.revision)))


class Sweeping:
    """A controller that sweeps, and stores groups meanwhile.

    ``before_removing`` happens between what a sweep has read and its transaction.
    """

    def __init__(self, url: str) -> None:
        self.database = open_database(url)
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
        """Store a group."""
        await self.database.write(lambda connection: write(connection, group=group), rows=1)


@pytest.fixture
def url(database_url: str) -> str:
    open_database(database_url).close()
    with connected(database_url) as connection:
        _prepare(connection)
    return database_url


@pytest.fixture
def sweeping(url: str) -> Iterator[Sweeping]:
    sweeping = Sweeping(url)
    yield sweeping
    sweeping.database.close()


WRITES = {
    "moves": (update_group, _group("slow", 33)),
    "is created": (insert_group, _group("new", 33)),
}


@pytest.mark.parametrize(
    ("write", "group", "kept"),
    [(*WRITES["moves"], [33, 50]), (*WRITES["is created"], [10, 33, 50])],
    ids=WRITES,
)
def test_what_a_group_needs_since_the_sweep_has_read_stays(
    url: str,
    sweeping: Sweeping,
    write: Callable[..., None],
    group: StoredGroup,
    kept: list[int],
) -> None:
    sweeping.before_removing = partial(sweeping.store, write, group)
    asyncio.run(sweeping.step())
    assert _left(url) == kept
