"""The revisions of the schema make what the service expects, on both databases."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, MetaData, Table, inspect
from sqlalchemy.engine import Inspector

from controller.database import open_database, upgrade_database
from controller.schema import chunks, metadata
from tests.integration.sessions import connected, move_into_tables
from tests.postgres import Cluster
from tests.server import Api, ServerProcess

_REVISION_5 = (
    "DROP TABLE journal",
    "CREATE INDEX marks_by_lower ON marks (stream_key, lower)",
    "CREATE INDEX marks_by_upper ON marks (stream_key, upper, revision)",
    "UPDATE alembic_version SET version_num = '0005'",
)


@pytest.fixture
def others_database(tmp_path: Path, database_kind: str, request: pytest.FixtureRequest) -> str:
    """The address of a database that nobody has prepared."""
    if database_kind == "sqlite":
        return f"sqlite:///{tmp_path}/others.db"
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster.empty_database()


def _differences(database_url: str, wanted: MetaData) -> list[object]:
    def compare(connection: Connection) -> list[object]:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return [*compare_metadata(context, wanted), *_other_keys(connection, wanted)]

    database = open_database(database_url)
    try:
        return asyncio.run(database.read(compare))
    finally:
        database.close()


def _other_keys(connection: Connection, wanted: MetaData) -> list[object]:
    """List the tables whose primary key or checks differ, which Alembic does not compare."""
    found = inspect(connection)
    names = set(found.get_table_names())
    return [
        (name, stored, modelled)
        for name, table in wanted.tables.items()
        if name in names and (stored := _stored_keys(found, name)) != (modelled := _keys(table))
    ]


def _stored_keys(found: Inspector, name: str) -> tuple[list[str], list[str]]:
    checks = [one["sqltext"] for one in found.get_check_constraints(name)]
    return found.get_pk_constraint(name)["constrained_columns"], sorted(checks)


def _keys(table: Table) -> tuple[list[str], list[str]]:
    checks = [one for one in table.constraints if isinstance(one, CheckConstraint)]
    key = [column.name for column in table.primary_key]
    return key, sorted(str(one.sqltext) for one in checks)


def test_models_and_revisions_agree(database_url: str) -> None:
    assert chunks.metadata is metadata
    assert _differences(database_url, metadata) == []


def test_a_difference_would_be_seen(database_url: str) -> None:
    assert _differences(database_url, MetaData()) != []


def test_another_primary_key_or_check_would_be_seen(database_url: str) -> None:
    upgrade_database(database_url)
    with connected(database_url) as connection:
        connection.exec_driver_sql("DROP TABLE journal")
        connection.exec_driver_sql(
            "CREATE TABLE journal (number BIGINT NOT NULL, changes TEXT NOT NULL, "
            "PRIMARY KEY (changes), CHECK (number > 0))"
        )
    (difference,) = _differences(database_url, metadata)
    assert difference == ("journal", (["changes"], ["number > 0"]), (["number"], []))


def test_a_database_with_tables_of_others_is_refused_by_serve_and_upgrade(
    tmp_path: Path, others_database: str
) -> None:
    with connected(others_database) as connection:
        connection.exec_driver_sql("CREATE TABLE streams (name TEXT)")
        connection.exec_driver_sql("CREATE TABLE customers (name TEXT)")
    cure = "holds tables that are not Tidegauge's (streams); use a database of its own"
    assert cure in ServerProcess(tmp_path, database_url=others_database).refusal()
    upgrade = ["tidegauge_cli", "db", "upgrade", "--database-url", others_database]
    upgraded = subprocess.run(
        [sys.executable, "-m", *upgrade], capture_output=True, text=True, check=False
    )
    assert upgraded.returncode != 0
    assert cure in upgraded.stderr


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
