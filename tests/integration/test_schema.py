"""The revisions of the schema make what the service expects, on both databases."""

import asyncio

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, MetaData

from controller.database import open_database
from controller.log.schema import chunks
from controller.schema import metadata


def _differences(database_url: str, wanted: MetaData) -> list[object]:
    def compare(connection: Connection) -> list[object]:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return list(compare_metadata(context, wanted))

    database = open_database(database_url)
    try:
        return asyncio.run(database.read(compare))
    finally:
        database.close()


def test_models_and_revisions_agree(database_url: str) -> None:
    assert chunks.metadata is metadata
    assert _differences(database_url, metadata) == []


def test_a_difference_would_be_seen(database_url: str) -> None:
    assert _differences(database_url, MetaData()) != []
