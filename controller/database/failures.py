"""Errors of the database: in plain words for callers, in full for the log."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DBAPIError

from controller.logs.deduplication import LogOnce
from tidegauge.errors import OutcomeUnknownError, UnavailableError

_AWAY = "the database is away"
_OTHER = "the database refuses; the log of the service says why"
_SQLITE = {
    sqlite3.SQLITE_FULL: "the database has no room: its disk is full (free some of it), or "
    "--max-database-bytes is reached (raise it, or delete streams)",
    sqlite3.SQLITE_BUSY: "another process has locked the database",
    sqlite3.SQLITE_READONLY: "the database cannot be written to",
}
_LEASE_LOST = "TG001"
_POSTGRESQL = {
    "25006": "the database cannot be written to",
    "53100": "the database has no room: its disk is full (free some of it)",
    "53200": "the database is out of memory",
    "53300": "the database takes no more connections",
    _LEASE_LOST: "another controller holds the database",
}
_log = logging.getLogger(__name__)


class LeaseLostError(UnavailableError):
    """The controller has lost its lease; whoever renews it says so, once for all."""


class Failures:
    """Translates the errors of one database.

    What a driver says may name a host, a file or a user. Callers get an error without these;
    the log has all that the database says, each once until it is written to again.
    """

    def __init__(self) -> None:
        self._said = LogOnce(_log, logging.ERROR)

    @contextmanager
    def translated(self, *, writes: bool = True) -> Iterator[None]:
        """Raise an error for callers of the service if the database refuses or is away.

        What no database was asked is a defect, and raised as it is. A full disk can be read: only
        what ``writes`` shows that all is well again.
        """
        try:
            yield
        except DBAPIError as error:
            said = any(
                getattr(error.orig, name, None) for name in ("sqlstate", "sqlite_errorcode")
            )
            if not (said or error.connection_invalidated or error.statement is None):
                # The driver could not send it: its values are wrong, or too many.
                raise
            self._log(error.orig)
            raise refusal_of(error.orig) from error
        except (OutcomeUnknownError, UnavailableError) as error:
            cause = error.__cause__
            if not isinstance(error, LeaseLostError):
                self._log(cause.orig if isinstance(cause, DBAPIError) else cause)
            raise
        if writes:
            self._said.end()

    def _log(self, error: BaseException | None) -> None:
        if not _is_lease_lost(error):
            self._said.log(f"the database says: {str(error).strip()}")


def refusal_of(error: BaseException | None) -> UnavailableError:
    """Return the error for callers when nothing was stored."""
    refusal = LeaseLostError if _is_lease_lost(error) else UnavailableError
    return refusal(reason_of(error))


def reason_of(error: BaseException | None) -> str:
    """Return what is wrong, without the name of a host, file or user."""
    if isinstance(error, sqlite3.Error):
        return _SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, _OTHER)
    if not isinstance(error, psycopg.Error):
        return _OTHER
    return _POSTGRESQL.get(error.sqlstate or "", _AWAY if is_lost(error) else _OTHER)


def _is_lease_lost(error: BaseException | None) -> bool:
    return isinstance(error, psycopg.Error) and error.sqlstate == _LEASE_LOST


def is_lost(error: BaseException | None) -> bool:
    """Return whether a connection to PostgreSQL broke: then it is not known how far it came."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.diag.severity_nonlocalized in {"FATAL", "PANIC"}
