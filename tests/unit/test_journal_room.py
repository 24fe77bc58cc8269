"""How much the journal moves into the tables, so that nobody has to wait for much."""

import asyncio
from contextlib import closing
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, insert

from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database, open_database
from controller.schema import streams
from controller.store.changes import StreamChanges
from controller.store.journal import Journal
from controller.store.journal.storage import read_entries
from tidegauge.aggregation.changes import Changes
from tidegauge.marks import Mark

QUIET, BUSY = 200, 4
"""Streams that are marked once, and then others, together and often."""
OFTEN = 900
ENOUGH = 10


def _add_streams(connection: Connection) -> None:
    rows = [
        {
            "key": key,
            "scope": "tests",
            "stream": str(key),
            "stream_id": str(key),
            "created_ms": 0,
            "config": "{}",
            "topology": "{}",
        }
        for key in range(1, QUIET + BUSY + 1)
    ]
    connection.execute(insert(streams), rows)


def _moved(connection: Connection) -> list[int]:
    """Of how many streams each transaction moved what was in the journal."""
    return [len(entry.settled) for _, entry in read_entries(connection)]


def _mark(journal: Journal, keys: range, revision: int, batch: Batch) -> Batch:
    for key in keys:
        made = [Mark(revision, revision, revision, {0: revision})]
        journal.add(batch, StreamChanges.of(key, Changes(marks=made), 0))
    return batch


async def _mark_all(database: Database) -> tuple[list[int], list[int]]:
    """Mark the quiet and then the busy.

    Tell how many streams were moved each time, and how many rows that was said to write.
    """
    await database.change(_add_streams)
    journal = Journal(database, enough=ENOUGH)
    await journal.read_back()
    sequencer = Sequencer(database)
    sequencer.start()
    moved, rows = [], []
    quiet = [(range(key, key + 1), 1) for key in range(1, QUIET + 1)]
    busy = [(range(QUIET + 1, QUIET + BUSY + 1), at) for at in range(1, OFTEN + 1)]
    for keys, revision in quiet + busy:
        batch = await sequencer.submit(partial(_mark, journal, keys, revision))
        moved.append((await database.read(_moved))[-1])
        rows.append(batch.rows)
    await sequencer.close()
    return moved, rows


def test_streams_that_keep_old_entries_are_moved_a_few_at_a_time(tmp_path: Path) -> None:
    with closing(open_database(f"sqlite:///{tmp_path}/one.db")) as database:
        moved, rows = asyncio.run(_mark_all(database))
    assert sum(moved) > QUIET + OFTEN * BUSY // ENOUGH
    assert max(moved) <= ENOUGH + 3 * BUSY
    assert all(counted >= count for counted, count in zip(rows, moved, strict=True))
