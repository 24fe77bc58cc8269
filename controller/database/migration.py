"""The schema's revisions: which one a database has, and how it gets the newest."""

import logging
from functools import cache
from pathlib import Path
from uuid import uuid4

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect
from sqlalchemy.dialects.postgresql import insert

from controller.database.interface import DatabaseUnusableError
from controller.schema import holder, metadata

logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs every check
_NOBODY = {"one": 1, "id": "nobody", "address": "", "lease_ms": 0, "number": 0}
SERVER = """
SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE concat_ws(
    ' ', left(pg_walfile_name(pg_current_wal_lsn()), 8),
    (SELECT system_identifier FROM pg_control_system()),
    (SELECT oid FROM pg_database WHERE datname = current_database())
) END
"""
"""Which server a connection leads to: timeline, which a promotion changes, system identifier, and oid of
the database; empty of one that is in recovery."""
_SCRIPTS = Path(__file__).parents[1] / "migrations"


def revision_of(connection: Connection) -> str | None:
    """Return the revision of a database's schema; None if it has none."""
    return MigrationContext.configure(connection).get_current_revision()


@cache
def newest_revision() -> str | None:
    """Return the revision that this version is for."""
    return _scripts().get_current_head()


def upgrade(connection: Connection, name: str) -> None:
    """Bring a schema up to date, in the caller's transaction, unless it is not ours."""
    revision = revision_of(connection)
    if revision == newest_revision():
        check_whole(connection, name)
        return
    _check_ours(connection, name, revision)
    is_shared = connection.dialect.name == "postgresql"
    if revision is not None and is_shared:
        _dethrone(connection)
    command.upgrade(_config(connection), "head")
    if revision is None and is_shared:
        server = connection.exec_driver_sql(SERVER).scalar_one()
        connection.execute(insert(holder).values(**_NOBODY, is_free=True, server=server))


def check_newest(connection: Connection, name: str) -> None:
    """Refuse a schema of another revision, with the command to run, or what else to do."""
    revision = revision_of(connection)
    if revision == newest_revision():
        return
    _check_ours(connection, name, revision)
    msg = (
        f"{name} has {'no schema' if revision is None else f'schema {revision}'}, this version needs "
        f"schema {newest_revision()}; run: tidegauge db upgrade --database-url '{name}'"
    )
    raise DatabaseUnusableError(msg)


def check_whole(connection: Connection, name: str) -> None:
    """Refuse a schema of the newest revision that an unreleased version made, by what it lacks."""
    inspected = inspect(connection)
    for table in metadata.tables.values():
        found = set[str]()
        if inspected.has_table(table.name):
            found = {column["name"] for column in inspected.get_columns(table.name)}
        if lacking := sorted(set(table.columns.keys()) - found):
            what = f"columns of its table {table.name}: {', '.join(lacking)}"
            msg = (
                f"{name} has schema {newest_revision()} and lacks {what}. A version that was never "
                "released made it: use a new database, or the version that made it"
            )
            raise DatabaseUnusableError(msg)


def _check_ours(connection: Connection, name: str, revision: str | None) -> None:
    """Refuse a newer revision, and names of our tables that are taken though there is none."""
    if revision is not None:
        if revision not in {script.revision for script in _scripts().walk_revisions()}:
            msg = (
                f"{name} has schema {revision}, this version needs schema {newest_revision()}; use the "
                "version of Tidegauge that made it"
            )
            raise DatabaseUnusableError(msg)
        return
    taken = sorted(metadata.tables.keys() & set(inspect(connection).get_table_names()))
    if taken:
        msg = (
            f"{name} holds tables that are not Tidegauge's ({', '.join(taken)}); "
            "use a database of its own"
        )
        raise DatabaseUnusableError(msg)


def _dethrone(connection: Connection) -> None:
    """Take the right from the holder, so that it starts over, and finds the new schema.

    The race: it does not know before its next renewal, and may answer from memory until then. So
    this leaves a row with its lease that nobody renews, and whoever takes over from that waits as
    usual. A free row stays free, but the new id keeps out a standby that has checked the former
    schema already.
    """
    row = {"id": str(uuid4()), "address": "", "number": 0}
    taken = insert(holder).values(**_NOBODY | row, is_free=False, server="")
    connection.execute(taken.on_conflict_do_update(index_elements=[holder.c.one], set_=row))


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


@cache
def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
