"""The revisions of the schema make what the service expects, on both databases."""

import asyncio
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, MetaData, Table, inspect
from sqlalchemy.engine import Inspector
from typer.testing import CliRunner

from controller.database import upgrade_database
from controller.schema import chunks, metadata
from tests.databases import open_database
from tests.postgres import Cluster
from tests.server import ServerProcess
from tests.service.sessions import connected
from tidegauge_cli.verbs import app

pytestmark = pytest.mark.about_sql


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
        connection.exec_driver_sql("DROP TABLE deleted_streams")
        connection.exec_driver_sql(
            "CREATE TABLE deleted_streams (key INTEGER NOT NULL, CHECK (key > 0))"
        )
    (difference,) = _differences(database_url, metadata)
    assert difference == ("deleted_streams", ([], ["key > 0"]), (["key"], []))


def test_a_database_with_tables_of_others_is_refused_by_serve_and_upgrade(
    tmp_path: Path, others_database: str
) -> None:
    with connected(others_database) as connection:
        connection.exec_driver_sql("CREATE TABLE streams (name TEXT)")
        connection.exec_driver_sql("CREATE TABLE customers (name TEXT)")
    cure = "holds tables that are not Tidegauge's (streams); use a database of its own"
    assert cure in ServerProcess(tmp_path, database_url=others_database).refusal()
    upgraded = CliRunner().invoke(app, ["db", "upgrade", "--database-url", others_database])
    assert upgraded.exit_code == 1
    assert cure in str(upgraded.exception)


def test_a_schema_of_another_version_is_refused_by_serve_and_upgrade(
    tmp_path: Path, others_database: str
) -> None:
    upgrade_database(others_database)
    with connected(others_database) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0013'")
    cure = "has schema version 0013, this version needs first; use the version of Tidegauge that made it"
    assert cure in ServerProcess(tmp_path, database_url=others_database).refusal()
    upgraded = CliRunner().invoke(app, ["db", "upgrade", "--database-url", others_database])
    assert cure in str(upgraded.exception)
