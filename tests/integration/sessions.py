"""What others than the service do to its database."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from sqlalchemy import Connection, create_engine

from controller.commit.sequencer import Sequencer
from controller.database import DatabaseAddress, open_database
from controller.schema import metadata
from controller.store.journal import Journal

_TABLES = ", ".join(table.name for table in metadata.sorted_tables)
_LOCK = {
    "sqlite": "BEGIN IMMEDIATE",
    "postgresql": f"LOCK TABLE {_TABLES} IN EXCLUSIVE MODE",
}


@contextmanager
def connected(database_url: str) -> Iterator[Connection]:
    """Connect for one transaction."""
    engine = create_engine(DatabaseAddress.parse(database_url).url)
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def write_lock(database_url: str) -> Iterator[None]:
    """Keep every transaction that writes waiting, as a careless backup would."""
    with connected(database_url) as connection:
        connection.exec_driver_sql(_LOCK[connection.dialect.name])
        yield


def move_into_tables(database_url: str, stream_key: int) -> None:
    """Store in the tables what the journal of a stopped service has of a stream."""

    async def move() -> None:
        sequencer, journal = Sequencer(database), Journal(database)
        await journal.read_back()
        sequencer.start()
        await sequencer.submit(partial(journal.move, stream_key=stream_key))
        await sequencer.close()

    with closing(open_database(database_url)) as database:
        asyncio.run(move())
