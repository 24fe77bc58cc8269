"""The revisions of the schema make what the service expects, on both databases."""

import asyncio
import time
from hashlib import blake2b
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, MetaData, Table, inspect
from sqlalchemy.engine import Inspector
from typer.testing import CliRunner

from controller.database import open_database, upgrade_database
from controller.schema import chunks, metadata
from tests.integration import old_databases
from tests.integration.log_api import LogApi, arrow_of, numbered
from tests.integration.sessions import connected
from tests.integration.test_chunk_formats import STREAM
from tests.integration.transaction_api import OpenTransaction, append_batch, listed
from tests.patience import wait_until
from tests.postgres import Cluster
from tests.server import Api, ServerProcess
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


def test_what_was_stored_before_there_was_a_changelog_is_there(
    tmp_path: Path, others_database: str
) -> None:
    is_sqlite = others_database.startswith("sqlite")
    recent = old_databases.RECENT_IN_JOURNAL if is_sqlite else old_databases.RECENT_IN_TABLES
    old_databases.make(others_database, "0006", (*old_databases.IN_TABLES, *recent))
    upgrade_database(others_database)
    assert _differences(others_database, metadata) == []
    server = ServerProcess(tmp_path, database_url=others_database, mark_thinning="")
    server.start()
    with Api(server.url) as api:
        marks = api.get("marks")["marks"]
        assert [(one["lower"], one["upper"], one["cut"]) for one in marks] == [
            (7_000, 7_000, {"0": 40}),
            (8_000, 9_000, {"0": 46}),
            (9_000, 9_000, {"0": 47}),
        ]
        writers = api.get("writers")["writers"]
        assert [(one["writer"], one["time"], one["position"]) for one in writers] == [
            ("w", 9_000, {"0": 47}),
            ("x", 20_000, {"0": 51}),
        ]
        assert [(one["stand"], one["stand_by"], one["grace"]) for one in writers] == [
            (9_000, "noted", True),
            (20_000, "noted", True),
        ]
        wait_until(lambda: api.get("writers")["writers"][0]["silent_for_ms"] is not None)
        api.note("w", 9_700, 49)
        api.note("w", 20_000)
        later = api.get("marks", after=3)["marks"]
        assert [(one["lower"], one["cut"]) for one in later] == [
            (9_700, {"0": 51}),
            (20_000, {"0": 51}),
        ]
    server.stop()


def test_who_was_in_a_changelog_before_there_were_two_clocks_has_fresh_ones_and_grace(
    tmp_path: Path, others_database: str
) -> None:
    stored = old_databases.in_changelog(others_database)
    old_databases.make(others_database, "0007", stored)
    upgrade_database(others_database)
    with (
        ServerProcess(tmp_path, database_url=others_database) as server,
        Api(server.url) as api,
    ):
        writers = api.get("writers")["writers"]
        assert [
            (one["writer"], one["state"], one["stand"], one["stand_by"], one["grace"])
            for one in writers
        ] == [
            ("gone", "expired", 5_000, "noted", True),
            ("new", "joining", None, None, True),
            ("off", "left", 6_000, "noted", True),
            ("w", "behind", 8_000, "noted", True),
            ("x", "active", 9_000, "noted", True),
        ]
        wait_until(lambda: api.get("writers")["writers"][3]["silent_for_ms"] is not None)
        assert api.post("writers/gone/register")["state"] == "joining"
        api.note("gone", 9_500, incarnation=1)
        api.note("new", 9_500, incarnation=1)
        api.note("w", 9_500, 47)
        (mark,) = api.get("marks", after=2)["marks"]
        assert (mark["lower"], mark["cut"]) == (9_000, {"0": 47})
        states = {one["writer"]: one["state"] for one in api.get("writers")["writers"]}
        assert states == {
            "gone": "active",
            "new": "active",
            "off": "left",
            "w": "active",
            "x": "behind",
        }


def test_what_happened_once_before_it_had_one_table_is_repeated_as_it_was(
    tmp_path: Path, others_database: str
) -> None:
    now_ms = time.time_ns() // 1_000_000
    staged = arrow_of(numbered(0, 3))
    literal = "X'{}'" if others_database.startswith("sqlite") else r"'\x{}'"
    line = '{"key": "k", "event_time": 1, "value": "v"}\n'
    fingerprint = blake2b(line.encode() + b"(None, None)", digest_size=16).hexdigest()
    rows = (
        """(1, 'open', 'w', 1, 60000, 900000, 'open', 1, 3, 99, '{"0":1}', NULL, NULL)""",
        f"""(1, 'gone', 'w', 1, 60000, 0, 'aborted', 0, 0, 0, '{{}}', NULL, {now_ms})""",
        f"""(1, 'done', 'w', 1, 60000, 0, 'committed', 0, 7, 9, '{{}}', '{{"0":7}}', {now_ms})""",
    )
    old_databases.make(
        others_database,
        "0012",
        (
            STREAM,
            *(f"INSERT INTO transactions VALUES {row}" for row in rows),
            f"INSERT INTO staged_chunks VALUES (1, 'open', 0, {literal.format(staged.hex())})",
            "INSERT INTO job_batches VALUES (1, 'job', 5)",
            f"""INSERT INTO idempotency_keys VALUES (1, 'one', '{fingerprint}', '{{"0":4}}', {now_ms})""",
        ),
    )
    upgrade_database(others_database)
    assert _differences(others_database, metadata) == []
    with (
        ServerProcess(tmp_path, database_url=others_database) as server,
        LogApi(server.url) as log,
    ):
        assert log.append_lines(line, key="one")["position"] == {"0": 4}
        assert log.append_lines(line * 2, key="one")["code"] == "invalid_request"
        assert append_batch(log, 5, [])["duplicate"] is True
        done, gone, is_open = listed(log)
        assert [one["id"] for one in (done, gone, is_open)] == ["done", "gone", "open"]
        assert (done["state"], done["events"], done["position"]) == ("committed", 7, {"0": 7})
        assert (gone["state"], gone["finished_ms"]) == ("aborted", now_ms)
        assert [one["id"] for one in listed(log, state="open")] == ["open"]
        assert OpenTransaction(log, "open").stage(numbered(3, 1), 1)["duplicate"] is True
        assert OpenTransaction(log, "done").commit()["position"] == {"0": 7}
        assert OpenTransaction(log, "open").commit()["position"] == {"0": 3}
        assert append_batch(log, 6, numbered(3, 1))["position"] == {"0": 4}
        assert log.events() == numbered(0, 4)
