"""``kill -9`` of real servers and of a reader, pauses, and restarts of a real PostgreSQL, under load.

The simulation tries all kinds of moments and faults; this shows that real processes, databases and
connections behave as the simulated ones do.
"""

import asyncio
import random
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count, cycle, islice, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from reader_client import AsyncReader, AsyncReaderGroup, AsyncStreamClient
from tests.effort import Effort
from tests.nursery import Fork
from tests.patience import PATIENCE_S, until, wait_until
from tests.postgres import Cluster
from tests.server import ServerProcess
from tests.service.controllers import LEASE_MS, answers, controllers, is_ready
from tidegauge.marks import Mark
from writer_client import AsyncWriter

pytestmark = pytest.mark.about_sql

STREAM = "crashes/one"
PATIENCE = timedelta(seconds=PATIENCE_S)
READ_FOR_EVER = """
from datetime import timedelta
from reader_client import Reader
from tidegauge.errors import ReaderFencedError
patience = timedelta(seconds={patience_s})
while True:
    reader = Reader({url!r}, {group!r}, "doomed", retry_for=patience)
    try:
        while True:
            for event in reader.read_next(wait_ms=50, limit=5):
                print("read", event.value.decode(), flush=True)
    except ReaderFencedError:  # a busy machine kept it silent for too long
        continue
"""


class _ChangedItsMindError(Exception):
    """A writer aborts its transaction."""


@dataclass
class Book:
    """What clients were told."""

    noted: dict[str, int] = field(default_factory=dict)
    """The latest time of each writer; all of its events up to it were acknowledged, in order."""
    marks: dict[int, Mark] = field(default_factory=dict)
    is_over: bool = False


async def _write(url: str, name: str, book: Book) -> None:
    """Write an event, two in a transaction, or two in one that is aborted; note the time of each."""
    async with AsyncWriter(url, STREAM, name, retry_for=PATIENCE) as writer:
        for time in count(1):
            if time % 3 == 0:
                async with writer.transaction() as transaction:
                    for part in "ab":
                        value = f"{name} {time} {part}"
                        await transaction.write(value, key=name, event_time=time)
                    transaction.note_time(time)
            else:
                await writer.write(f"{name} {time}", key=name, event_time=time)
                writer.note_time(time)
                await writer.flush()
            book.noted[name] = time
            if book.is_over:
                return
            if time % 4 == 0:
                with suppress(_ChangedItsMindError):
                    async with writer.transaction() as transaction:
                        await transaction.write("never", key=name, event_time=time + 1)
                        raise _ChangedItsMindError


def _values_of(name: str, book: Book) -> list[str]:
    return [
        f"{name} {time}{part}"
        for time in range(1, book.noted[name] + 1)
        for part in ([" a", " b"] if time % 3 == 0 else [""])
    ]


async def _watch(client: AsyncStreamClient, book: Book) -> None:
    while not book.is_over:
        for mark in await client.marks(after=max(book.marks, default=0), wait_ms=200):
            book.marks[mark.revision] = mark


class Scene(NamedTuple):
    """Servers, and what can befall them."""

    servers: list[ServerProcess]
    faults: list[Callable[[], None]]


@pytest.fixture
def scene(
    tmp_path: Path, database_kind: str, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """One server on SQLite, or two on PostgreSQL, of which one holds and the other stands by."""
    if database_kind == "sqlite":
        with ServerProcess(tmp_path, database_url=f"sqlite:///{tmp_path}/one.db") as server:
            yield Scene([server], [partial(_kill, [server])])
        return
    cluster: Cluster = request.getfixturevalue("own_cluster")
    with controllers(cluster, tmp_path, 2, lease_ms=LEASE_MS) as two:
        kill, pause = partial(_kill, two.servers), partial(_pause, two.servers)
        yield Scene(two.servers, [kill, pause, cluster.restart])


def _holder(servers: list[ServerProcess]) -> ServerProcess:
    wait_until(lambda: any(map(is_ready, servers)))
    return next(filter(is_ready, servers))


def _kill(servers: list[ServerProcess]) -> None:
    """Kill whoever holds the database, and start it again."""
    holder = _holder(servers)
    holder.kill()
    holder.launch()
    wait_until(lambda: answers(holder))


def _pause(servers: list[ServerProcess]) -> None:
    """Stop whoever holds the database until another one does."""
    holder = _holder(servers)
    holder.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: any(is_ready(one) for one in servers if one is not holder))
    holder.process.send_signal(signal.SIGCONT)


def test_what_was_acknowledged_survives_all_of_it_once_in_order_and_whole(
    scene: Scene, tmp_path: Path, effort: Effort
) -> None:
    count = effort.times("kills, pauses and restarts", short=3, long=60)
    asyncio.run(_play(scene.servers, tmp_path / "read", islice(cycle(scene.faults), count)))


async def _play(
    servers: list[ServerProcess], read: Path, faults: Iterable[Callable[[], None]]
) -> None:
    url, book, moments = servers[-1].url, Book(), random.Random(7)
    async with (
        aclosing(AsyncStreamClient(url, STREAM, retry_for=PATIENCE)) as client,
        aclosing(AsyncReaderGroup(url, STREAM, retry_for=PATIENCE)) as group,
    ):
        await client.create(segments=2, mark_interval_ms=0, mark_resolution_ms=0)
        await group.create([STREAM], heartbeat_ms=100, dead_after_ms=2_000)
        code = READ_FOR_EVER.format(url=url, group=STREAM, patience_s=PATIENCE_S)
        doomed = Fork(code, {}, read)
        try:
            async with asyncio.TaskGroup() as work:
                for at in range(4):
                    work.create_task(_write(servers[at % len(servers)].url, f"w{at}", book))
                work.create_task(_watch(client, book))
                for fault in faults:
                    await _until_all_went_on(book, read)
                    await asyncio.sleep(moments.random() / 20)
                    await asyncio.to_thread(fault)
                await _until_all_went_on(book, read)
                book.is_over = True
        finally:
            doomed.kill()
            doomed.wait()
        await _check_log(client, book)
        await _check_marks(client, book)
        await _check_readers(url, group, book, _printed(read))


async def _until_all_went_on(book: Book, read: Path) -> None:
    def seen() -> list[int]:
        counts = [book.noted.get(f"w{at}", 0) for at in range(4)]
        return [*counts, len(book.marks), len(_printed(read))]

    before = seen()
    await until(lambda: all(a < b for a, b in zip(before, seen(), strict=True)))


def _printed(read: Path) -> list[str]:
    lines = read.read_text().splitlines() if read.exists() else []
    return [line.removeprefix("read ") for line in lines if line.startswith("read ")]


async def _check_log(client: AsyncStreamClient, book: Book) -> None:
    stored: dict[str, list[str]] = defaultdict(list)
    for segment, end in ((await client.describe()).tail or {}).items():
        async for page in client.read(segment, 0, end):
            for value in page.batch["value"].to_pylist():
                stored[value.decode().partition(" ")[0]].append(value.decode())
    assert stored == {name: _values_of(name, book) for name in book.noted}


async def _check_marks(client: AsyncStreamClient, book: Book) -> None:
    """Every mark that was seen is there; the newest promises what every writer noted."""
    marks: list[Mark] = []
    async with asyncio.timeout(PATIENCE_S):
        while not marks or marks[-1].lower < min(book.noted.values()):
            marks += await client.marks(after=len(marks), wait_ms=1_000)
    assert [one.revision for one in marks] == list(range(1, len(marks) + 1))
    assert marks[-1].lower == min(book.noted.values())
    for before, after in pairwise(marks):
        assert before.lower < after.lower
        assert all(after.cut[segment] >= offset for segment, offset in before.cut.items())
    assert {one: marks[one - 1] for one in book.marks} == book.marks


async def _check_readers(
    url: str, group: AsyncReaderGroup, book: Book, printed: list[str]
) -> None:
    """Another reader gets all that was not confirmed, once; together they got everything."""
    found = Counter[str]()
    tail = Counter(value for name in book.noted for value in _values_of(name, book))
    async with AsyncReader(url, STREAM, "heir") as heir, asyncio.timeout(PATIENCE_S):
        while sum((await group.position(STREAM)).values()) < tail.total():
            found.update([one.value.decode() for one in await heir.read_next(wait_ms=100)])
    assert set(found) | set(printed) == set(tail)
    assert set(found.values()) <= {1}
