"""Which chunks are worth merging, and when that comes to an end."""

from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import Connection, select

from controller.database import Database
from controller.log.codec import encode_chunks
from controller.log.compaction import Compactor, next_run, settled_before
from controller.log.storage import Chunk, ChunkRow, write_appends
from controller.schema import chunks
from tests.databases import open_database
from tidegauge.wire.columns import EVENT_SCHEMA

TINY, SMALL, LARGE = 500, 10_000, 200_000


def rows(*sizes: int) -> list[ChunkRow]:
    return [ChunkRow(10 * at, 10, None, size) for at, size in enumerate(sizes)]


def offsets(run: object) -> list[int]:
    return [row.first_offset for row in run]  # type: ignore[attr-defined]


def test_fewer_than_sixteen_small_chunks_stay() -> None:
    assert next_run(rows(*[TINY] * 15)) == []
    assert offsets(next_run(rows(*[TINY] * 16))) == list(range(0, 160, 10))


def test_large_chunks_stay_and_part_the_small_ones() -> None:
    assert next_run(rows(*[TINY] * 15, LARGE, *[TINY] * 15)) == []
    run = next_run(rows(*[TINY] * 3, LARGE, *[SMALL] * 20))
    assert offsets(run) == list(range(40, 240, 10))


def test_tiny_chunks_are_merged_among_themselves_first() -> None:
    run = next_run(rows(*[SMALL] * 17, *[TINY] * 16))
    assert offsets(run) == list(range(170, 330, 10))


def test_a_merged_chunk_is_never_more_than_a_full_one() -> None:
    run = next_run(rows(*[60_000] * 40))
    assert sum(row.size for row in run) <= 1_048_576
    assert len(run) == 17
    many = [ChunkRow(4_000 * at, 4_000, None, TINY) for at in range(40)]
    assert sum(row.events for row in next_run(many)) == 64_000


def test_what_lies_before_the_last_large_chunk_is_settled() -> None:
    assert settled_before(rows(TINY, LARGE, TINY, TINY), 0) == 20
    assert settled_before(rows(TINY, TINY), 7) == 7


class BusyDatabase:
    """A database in which 16 events more are appended to a segment by the end of every change."""

    def __init__(self, database: Database) -> None:
        self.read = database.read
        self._database = database
        self._offsets = count()
        self.changes = 0

    async def append(self) -> None:
        events = pa.RecordBatch.from_pylist([{"key": "", "value": b""}], EVENT_SCHEMA)
        (event,) = encode_chunks(events, writer=None, append_time=0)
        appended = [Chunk(0, next(self._offsets), 1, None, event.message, 0) for _ in range(16)]
        await self._database.change(lambda one: write_appends(one, 1, appended, {}))

    async def change(self, work: Callable[[Connection], Any]) -> None:
        self.changes += 1
        assert self.changes < 100, "it goes on as long as somebody appends"
        await self._database.change(work)
        await self.append()

    async def chunk_sizes(self) -> list[int]:
        sizes = select(chunks.c.events).order_by(chunks.c.first_offset)
        return await self.read(lambda one: list(one.execute(sizes).scalars()))


@pytest.mark.anyio
async def test_compaction_ends_at_the_tail_it_was_told_however_busy_a_segment_is(
    tmp_path: Path,
) -> None:
    with closing(open_database(f"sqlite:///{tmp_path}/one.db")) as opened:
        database = BusyDatabase(opened)
        await database.append()
        await Compactor(database).compact(1, {0: 16})  # type: ignore[arg-type]
        assert await database.chunk_sizes() == [16] + [1] * 16
