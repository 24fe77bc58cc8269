"""Compaction: many small adjacent chunks become one, so that reads stay fast.

Chunks are small, tiny or neither, by what part of a full chunk they are. A run of at least
`_FEWEST` tiny or small ones is merged, so that an event is written again about twice in its
life, however small the appends are. Reads are not disturbed: they go by offset, and one that
finds a merged chunk begin before the offset it has come to leaves out what it has sent.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic

from sqlalchemy import Connection

from controller.database import Database
from controller.log import storage
from controller.log.codec import CHUNK_EVENTS, merge
from controller.log.storage import Chunk, ChunkRow, ChunksGoneError
from tidegauge.topology import Position

_FULL_BYTES = 1_048_576  # of what is merged: a quarter of the largest chunk
_FEWEST = 16
_SMALL = 1 / 16
_TINY = 1 / 256


def next_run(rows: Sequence[ChunkRow]) -> Sequence[ChunkRow]:
    """Choose adjacent chunks to merge into one; empty if there is nothing worth it."""
    for below in (_TINY, _SMALL):
        run: list[ChunkRow] = []
        filled = 0.0
        for row in rows:
            weight = _weight(row)
            if weight >= below or filled + weight > 1:
                if len(run) >= _FEWEST:
                    return run
                run, filled = [], 0.0
            if weight < below:
                run.append(row)
                filled += weight
        if len(run) >= _FEWEST:
            return run
    return []


def settled_before(rows: Sequence[ChunkRow], start: int) -> int:
    """Find the offset before which nothing will be merged, once `next_run` finds nothing."""
    for row in reversed(rows):
        if _weight(row) >= _SMALL:
            return row.first_offset + row.events
    return start


class Compactor:
    """Merges chunks of one database, remembering what is done.

    They are merged in a reader's thread; the writer's only puts the result in place, so that
    commits wait for one small transaction at most.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._settled: dict[tuple[int, int], int] = {}
        self._tails: dict[tuple[int, int], int] = {}

    async def compact(self, stream_key: int, tails: Position) -> None:
        """Merge what is worth it in the segments of a stream that have grown up to their tails.

        What is appended meanwhile is left to the next call: an end that went on with the
        appends of a busy segment might never be reached, and others would wait for theirs.
        """
        for segment, tail in tails.items():
            place = stream_key, segment
            if tail != self._tails.get(place, 0):
                while await self._merge_some(stream_key, segment, tail):
                    pass
                self._tails[place] = tail

    async def _merge_some(self, stream_key: int, segment: int, tail: int) -> bool:
        """Merge one run, and rest as long as it took; False when nothing is left to merge."""
        begun = monotonic()
        place = stream_key, segment
        start = self._settled.get(place, 0)
        rows = await self._database.read(
            lambda connection: storage.chunks_between(connection, *place, start=start, end=tail)
        )
        run = next_run(rows)
        if not run:
            self._settled[place] = settled_before(rows, start)
            return len(rows) == storage.CHUNKS_LISTED

        def merged(connection: Connection) -> Chunk:
            start, end = run[0].first_offset, run[-1].first_offset + 1
            size = sum(one.size for one in run)
            stored = storage.read_chunks(connection, *place, start=start, end=end, limit=size)
            if len(stored) < len(run):  # some were truncated meanwhile
                raise ChunksGoneError
            return Chunk(
                segment,
                start,
                sum(one.events for one in stored),
                stored[-1].running_time,
                merge(one.data for one in stored),
                append_time=max(one.append_time for one in stored),
            )

        try:
            chunk = await self._database.read(merged)
            await self._database.change(
                lambda connection: storage.replace_run(connection, *place, run, chunk)
            )
        except ChunksGoneError:
            return False
        await asyncio.sleep(monotonic() - begun)
        return True


def _weight(row: ChunkRow) -> float:
    """Return what part of a full chunk a chunk is."""
    return max(row.size / _FULL_BYTES, row.events / CHUNK_EVENTS)
