"""The schema's revisions: which one a database has, and how it gets the newest."""

import logging
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from controller.database.interface import DatabaseUnusableError
from controller.schema import metadata

_GONE = {
    *("reports", "writers", "report_pages", "journal"),
    *("idempotency_keys", "transactions", "job_batches"),
}
"""Tables that some revision makes and a later one drops."""
logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs every check
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
        return
    _check_ours(connection, name, revision)
    command.upgrade(_config(connection), "head")


def stamp_first(connection: Connection) -> None:
    """Mark a schema that was made before there were revisions as the first of them."""
    if revision_of(connection) is None:
        command.stamp(_config(connection), "0001")


def check_newest(connection: Connection, name: str) -> None:
    """Refuse a schema of another revision, with the command to run, or what else to do."""
    revision = revision_of(connection)
    if revision == newest_revision():
        return
    _check_ours(connection, name, revision)
    msg = (
        f"{name} has {'no schema' if revision is None else f'schema {revision}'}, this version needs "
        f"{newest_revision()}; run: tidegauge db upgrade --database-url '{name}'"
    )
    raise DatabaseUnusableError(msg)


def unknown_schema(name: str, version: object) -> DatabaseUnusableError:
    """Return the error for a schema of another version of Tidegauge."""
    return DatabaseUnusableError(
        f"{name} has schema version {version}, this version needs {newest_revision()}; "
        "use the version of Tidegauge that made it"
    )


def _check_ours(connection: Connection, name: str, revision: str | None) -> None:
    """Refuse a newer revision, and names of our tables that are taken though there is none."""
    if revision is not None:
        if revision not in {script.revision for script in _scripts().walk_revisions()}:
            raise unknown_schema(name, revision)
        return
    ours = metadata.tables.keys() | _GONE
    taken = sorted(ours & set(inspect(connection).get_table_names()))
    if taken:
        msg = (
            f"{name} holds tables that are not Tidegauge's ({', '.join(taken)}); "
            "use a database of its own"
        )
        raise DatabaseUnusableError(msg)


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


@cache
def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
