"""The revisions of the schema make what the service expects, on both databases, and refuse the rest."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, MetaData, Table, inspect
from sqlalchemy.engine import Inspector
from typer.testing import CliRunner

from controller.cluster import open_right
from controller.configuration import ServeSettings
from controller.database import DatabaseUnusableError, upgrade_database
from controller.database.migration import newest_revision
from controller.schema import chunks, metadata
from tests.databases import open_database
from tests.postgres import Cluster
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

    with closing(open_database(database_url)) as database:
        return asyncio.run(database.read(compare))


def _other_keys(connection: Connection, wanted: MetaData) -> list[object]:
    """List the tables whose primary key or checks differ, which Alembic does not compare."""
    inspected = inspect(connection)
    names = wanted.tables.keys() & set(inspected.get_table_names())
    pairs = [
        (name, _stored_keys(inspected, name), _keys(wanted.tables[name])) for name in names
    ]
    return [(name, stored, modelled) for name, stored, modelled in pairs if stored != modelled]


def _stored_keys(inspected: Inspector, name: str) -> tuple[list[str], list[str]]:
    checks = [check["sqltext"] for check in inspected.get_check_constraints(name)]
    return inspected.get_pk_constraint(name)["constrained_columns"], sorted(checks)


def _keys(table: Table) -> tuple[list[str], list[str]]:
    checks = [one for one in table.constraints if isinstance(one, CheckConstraint)]
    key = [column.name for column in table.primary_key]
    return key, sorted(str(check.sqltext) for check in checks)


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


def test_a_database_of_an_unreleased_version_is_refused_by_what_it_lacks(
    database_url: str,
) -> None:
    upgrade_database(database_url)
    with connected(database_url) as connection:
        connection.exec_driver_sql("ALTER TABLE streams DROP COLUMN truncation")
    for start in (
        lambda: open_right(ServeSettings(database_url=database_url)),
        lambda: upgrade_database(database_url),
    ):
        with pytest.raises(
            DatabaseUnusableError, match="lacks columns of its table streams: trun"
        ):
            start()


OTHERS = {
    "tables of others": (
        ["CREATE TABLE streams (name TEXT)", "CREATE TABLE customers (name TEXT)"],
        "holds tables that are not Tidegauge's (streams); use a database of its own",
    ),
    "another version": (
        [
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
            "INSERT INTO alembic_version VALUES ('0013')",
        ],
        f"has schema 0013, this version needs schema {newest_revision()}; use the version of",
    ),
}


@pytest.mark.parametrize(("statements", "cure"), OTHERS.values(), ids=OTHERS)
def test_what_is_not_its_own_is_refused_by_serve_and_upgrade(
    others_database: str, statements: list[str], cure: str
) -> None:
    with connected(others_database) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    with pytest.raises(DatabaseUnusableError) as refused:
        open_right(ServeSettings(database_url=others_database))
    upgraded = CliRunner().invoke(app, ["db", "upgrade", "--database-url", others_database])
    assert upgraded.exit_code == 1
    assert cure in str(refused.value)
    assert cure in str(upgraded.exception)
