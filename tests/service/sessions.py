"""What others than the service do to its database."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, create_engine

from controller.database import DatabaseAddress
from controller.schema import metadata

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
