"""The revisions of the schema make what the service expects, on both databases."""

import asyncio

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, MetaData

from controller.database import open_database, upgrade_database
from controller.log.schema import chunks
from controller.schema import metadata
from tests.integration.sessions import connected, move_into_tables
from tests.server import Api, ServerProcess

_REVISION_5 = (
    "DROP TABLE journal",
    "CREATE INDEX marks_by_lower ON marks (stream_key, lower)",
    "CREATE INDEX marks_by_upper ON marks (stream_key, upper, revision)",
    "UPDATE alembic_version SET version_num = '0005'",
)


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


def test_what_was_stored_before_there_was_a_journal_is_there(
    server: ServerProcess, api: Api, database_url: str
) -> None:
    api.create()
    for writer, time, offset in (("w", 7_000, 40), ("x", 9_000, 45), ("w", 8_000, 46)):
        api.note(writer, time, offset)
    marks = api.get("marks")["marks"]
    server.stop()
    if server.database_url.startswith("sqlite"):
        move_into_tables(database_url, stream_key=1)
    with connected(database_url) as connection:
        for statement in _REVISION_5:
            connection.exec_driver_sql(statement)
    upgrade_database(database_url)
    assert _differences(database_url, metadata) == []
    server.start()
    assert api.get("marks")["marks"] == marks
    assert api.get("marks/at", time=7_500)["stop"]["cut"] == {"0": 46}
    api.note("w", 9_000, 47)
    assert api.get("watermark")["watermark"] == 9_000
    assert [one["writer"] for one in api.get("writers")["writers"]] == ["w", "x"]
