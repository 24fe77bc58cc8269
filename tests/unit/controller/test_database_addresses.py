"""Where a database is: what cannot be served is refused with a cure, and no password is shown."""

import asyncio
import re
import socket
import sqlite3
import traceback
from contextlib import closing
from functools import partial
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError
from typer.testing import CliRunner, Result

from controller.cluster import open_right
from controller.configuration import LEAST_DATABASE_BYTES, ServeSettings
from controller.database import DatabaseAddress, DatabaseUnusableError, postgresql
from controller.database.failures import reason_of
from tests.databases import open_database
from tidegauge_cli.verbs import app

SECRET = "correct-horse"
FORMS = "write sqlite:///PATH or postgresql://USER@HOST/NAME"


def _upgrade(url: str) -> Result:
    return CliRunner().invoke(app, ["db", "upgrade", "--database-url", url])


@pytest.mark.parametrize(
    ("url", "size", "cure"),
    [
        ("mysql://localhost/x", 0, FORMS),
        ("nonsense", 0, FORMS),
        ("sqlite://", 0, FORMS),
        ("sqlite:////none/tidegauge.db", 0, "the directory /none does not exist"),
        (
            "postgresql://u@localhost/x",
            LEAST_DATABASE_BYTES,
            "the size of a PostgreSQL database is bounded there, not here",
        ),
    ],
)
def test_an_address_that_cannot_be_served_is_refused(url: str, size: int, cure: str) -> None:
    with pytest.raises(DatabaseUnusableError, match=re.escape(cure)):
        open_right(ServeSettings(database_url=url, max_database_bytes=size))


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://tidegauge:{SECRET}@127.0.0.1:1/x?password={SECRET}",
        f"mysql://tidegauge:{SECRET}@localhost/x",
        f"postgresql:/tidegauge:{SECRET}@localhost/x",
        f"postgresql+asyncpg://tidegauge:{SECRET}@localhost:port/x",
    ],
)
def test_an_error_about_an_address_leaves_its_password_out(url: str) -> None:
    for refuse in (
        lambda: open_right(ServeSettings(database_url=url)),
        lambda: open_database(url),
    ):
        with pytest.raises(DatabaseUnusableError) as refused:
            refuse()
        assert SECRET not in "".join(traceback.format_exception(refused.value))
    failed = _upgrade(url)
    assert failed.exit_code == 1
    assert SECRET not in failed.output + str(failed.exception)


def test_an_address_is_shown_without_what_may_hold_a_password() -> None:
    text = f"postgresql://u:{SECRET}@db/x?host=/run/pg&port=6&password={SECRET}"
    address = DatabaseAddress.parse(text)
    assert str(address) == "postgresql://u@db/x?host=/run/pg&port=6"
    assert repr(address) == f"DatabaseAddress({address})"


@pytest.mark.parametrize(
    ("unknown_for", "waits", "said"),
    [
        (3, 3, 'connection to server at "127.0.0.1", port 1 failed'),
        (1_000, 51, "failed to resolve host 'late.invalid'"),
    ],
)
def test_the_upgrade_waits_ten_seconds_for_a_name_that_is_not_known_yet(
    monkeypatch: pytest.MonkeyPatch, unknown_for: int, waits: int, said: str
) -> None:
    """A network of containers knows the name of one only once that one runs."""
    paused_s: list[float] = []
    ask = socket.getaddrinfo

    def find(_host: str, *args: Any, **options: Any) -> Any:
        if len(paused_s) < unknown_for:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ask("127.0.0.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", find)
    monkeypatch.setattr(postgresql, "sleep", paused_s.append)
    monkeypatch.setattr(postgresql, "monotonic", lambda: sum(paused_s))
    failed = _upgrade("postgresql://tidegauge@late.invalid:1/x")
    assert failed.exit_code == 1
    assert said in str(failed.exception)
    assert len(paused_s) == waits


REFUSED = "the database refuses; the log of the service says why"
FULL = "the database has no room: its disk is full (free some of it)"


def _sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("it says so")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            _sqlite_error(sqlite3.SQLITE_FULL),
            f"{FULL}, or --max-database-bytes is reached (raise it, or delete streams)",
        ),
        (
            _sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT),
            "another process has locked the database",
        ),
        (_sqlite_error(sqlite3.SQLITE_READONLY_RECOVERY), "the database cannot be written to"),
        (_sqlite_error(sqlite3.SQLITE_IOERR_WRITE), REFUSED),
        (psycopg.errors.lookup("53100")(), FULL),
        (psycopg.errors.lookup("25006")(), "the database cannot be written to"),
        (psycopg.errors.lookup("53200")(), "the database is out of memory"),
        (psycopg.errors.lookup("53300")(), "the database takes no more connections"),
        (psycopg.errors.lookup("57014")(), REFUSED),
        (psycopg.OperationalError("the connection is lost"), "the database is away"),
        (ValueError("another"), REFUSED),
    ],
)
def test_a_caller_is_told_why_and_nothing_about_where(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason


def test_a_value_that_cannot_be_sent_is_a_defect_and_no_outage(database_url: str) -> None:
    def send(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT ?", (object(),))

    async def scene() -> None:
        with closing(open_database(database_url)) as database:
            for way in (partial(database.write, rows=1), database.change, database.read):
                with pytest.raises(ProgrammingError):
                    await way(send)
                await database.read(database.check)

    asyncio.run(scene())
