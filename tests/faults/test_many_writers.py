"""As many writers are forgotten at once as a stream may have."""

import asyncio
from contextlib import closing
from functools import partial

import pytest
from sqlalchemy import Connection, select

from controller.database.statements import insert_rows
from controller.log.storage import forget_sequences
from controller.schema import append_sequences
from tests.databases import open_database

pytestmark = pytest.mark.about_sql

KEY = 1
NAMES = [f"writer-{number}" for number in range(70_000)]
"""More than PostgreSQL takes parameters in one statement."""


def _left(connection: Connection) -> list[str]:
    return list(connection.scalars(select(append_sequences.c.writer)))


async def _forget_all(database_url: str) -> list[str]:
    names = [*NAMES, "stays"]
    rows = [(KEY, name, segment, 0, 1, 1) for name in names for segment in (0, 1)]
    with closing(open_database(database_url)) as database:
        await database.change(partial(insert_rows, table=append_sequences, rows=rows))
        await database.change(partial(forget_sequences, stream_key=KEY, names=NAMES))
        return await database.read(_left)


def test_all_writers_of_a_large_stream_are_forgotten_in_one_transaction(
    database_url: str,
) -> None:
    assert asyncio.run(_forget_all(database_url)) == ["stays", "stays"]
