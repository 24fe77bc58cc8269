"""Statements for PostgreSQL, as SQLite takes them.

What a controller asks of PostgreSQL is asked here, too. This rewrites it for one
serializable database: locks of rows are left out, since transactions follow one another, and
sessions of a server are never stuck. What is about those is tested with a real PostgreSQL.
"""

import re
from collections.abc import Callable
from typing import Any

import psycopg
from sqlalchemy import Engine, event

_LEASE = "SELECT 1 FROM holder WHERE id = ?"
_NOTHING = "SELECT 1 WHERE 0"
_WHOLE = (
    (re.compile(r"FROM pg_stat_activity WHERE pid = pg_backend_pid"), "SELECT 1, 1"),
    (re.compile(r"pg_terminate_backend|^SET LOCAL"), _NOTHING),
)
_PARTS = ((re.compile(r" FOR UPDATE"), ""), (re.compile(r"%s"), "?"))


class LeaseLost(psycopg.DatabaseError):
    """What `tidegauge_check_lease` raises."""

    sqlstate = "TG001"


class Speech:
    """Lets an engine over SQLite take what is for PostgreSQL.

    Parameters
    ----------
    notify
        Called when a transaction with a NOTIFY is about to be committed.
    commit
        Called before each commit.
    """

    def __init__(
        self, engine: Engine, *, notify: Callable[[], None], commit: Callable[[], None]
    ) -> None:
        self._notify = notify
        self._commit = commit
        self._has_news = False
        event.listen(engine, "before_cursor_execute", self._rewrite, retval=True)

    def _rewrite(self, *given: Any) -> tuple[str, Any]:
        _connection, cursor, text, values, _context, _is_many = given
        if text in {"BEGIN", "COMMIT"}:
            self._begin_or_commit(text)
            return text, values
        if text.startswith("NOTIFY"):
            self._has_news = True
            return _NOTHING, ()
        if "tidegauge_check_lease" in text:
            if cursor.execute(_LEASE, values).fetchone() is None:
                raise LeaseLost("no lease")
            return _NOTHING, ()
        for pattern, whole in _WHOLE:
            if pattern.search(text):
                return whole, ()
        for pattern, part in _PARTS:
            text = pattern.sub(part, text)
        return text, values

    def _begin_or_commit(self, text: str) -> None:
        if text == "BEGIN":
            self._has_news = False
            return
        self._commit()
        if self._has_news:
            self._notify()
