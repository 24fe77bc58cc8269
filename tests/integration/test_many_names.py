"""As many writers are forgotten at once as a stream may have."""

import asyncio
from contextlib import closing
from functools import partial

from sqlalchemy import Connection, select

from controller.database import open_database
from controller.database.statements import Rows, insert_rows
from controller.log.storage import forget_sequences
from controller.schema import append_sequences, writers
from controller.store.aggregations import write_changes
from controller.store.changes import StreamChanges
from tidegauge.aggregation.changes import Changes
from tidegauge.aggregation.writers import Writer

KEY = 1
NAMES = [f"writer-{number}" for number in range(70_000)]
"""More than PostgreSQL takes parameters in one statement."""


def _write(connection: Connection, changes: StreamChanges, sequences: Rows) -> None:
    write_changes(connection, [changes])
    insert_rows(connection, append_sequences, sequences)


def _forget(connection: Connection) -> None:
    write_changes(connection, [StreamChanges.of(KEY, Changes(forgotten=NAMES), 0)])
    forget_sequences(connection, KEY, NAMES)


def _left(connection: Connection) -> list[list[str]]:
    tables = (writers, append_sequences)
    return [list(connection.scalars(select(one.c.writer))) for one in tables]


async def _forget_all(database_url: str) -> list[list[str]]:
    names = [*NAMES, "stays"]
    changes = StreamChanges.of(KEY, Changes(writers=[Writer(one).stored() for one in names]), 0)
    sequences = [(KEY, name, segment, 0, 1, 1) for name in names for segment in (0, 1)]
    with closing(open_database(database_url)) as database:
        await database.change(partial(_write, changes=changes, sequences=sequences))
        await database.change(_forget)
        return await database.read(_left)


def test_all_writers_of_a_large_stream_are_forgotten_in_one_transaction(
    database_url: str,
) -> None:
    assert asyncio.run(_forget_all(database_url)) == [["stays"], ["stays", "stays"]]
