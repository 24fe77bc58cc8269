"""Statements for PostgreSQL, as SQLite takes them.

What a controller asks of PostgreSQL is asked here, too. This rewrites it for one serializable
database, in which transactions follow one another. Only the row of the lease is locked by those
that have begun. What else is about locks and sessions is tested with a real PostgreSQL.
"""

import re
from typing import Any, Protocol

import psycopg
from sqlalchemy import Engine, event

_FORMER_ID = {8: 6, 3: 2}
"""Where the id of the row stands among the values, of a take-over and of a leave."""
_NOTHING = "SELECT 1 WHERE 0"
_WHOLE = (
    (re.compile(r"FROM pg_stat_activity WHERE pid = pg_backend_pid"), "SELECT 1, 1"),
    (re.compile(r"pg_terminate_backend|^SET LOCAL"), _NOTHING),
)
_PARTS = (
    (re.compile(r" FOR UPDATE"), ""),
    (re.compile(r"%s"), "?"),
    (re.compile(r"pg_backend_pid\(\)$"), "1"),
)


class LeaseLost(psycopg.DatabaseError):
    """What `tidegauge_check_lease` raises."""

    sqlstate = "TG001"


class Listener(Protocol):
    """Who hears of what is not for SQLite."""

    def start(self) -> None:
        """Be about to begin a transaction."""

    def lock(self, lease_id: str) -> None:
        """Lock the row of a lease."""

    def replace(self, lease_id: str) -> None:
        """Be about to give the row of a lease another id."""

    def end_sessions(self, name: str) -> None:
        """End sessions that are in a transaction."""

    def commit(self) -> None:
        """Be about to commit."""

    def notify(self) -> None:
        """Have committed a NOTIFY."""


class Speech:
    """Lets an engine over SQLite take what is for PostgreSQL."""

    def __init__(self, engine: Engine, listener: Listener) -> None:
        self._listener = listener
        self._has_news = False
        event.listen(engine, "before_cursor_execute", self._rewrite, retval=True)

    def _rewrite(self, *given: Any) -> tuple[str, Any]:
        _connection, _cursor, text, values, _context, _is_many = given
        if text in {"BEGIN", "COMMIT"}:
            self._begin_or_commit(text)
            return text, values
        if text.startswith("NOTIFY"):
            self._has_news = True
            return _NOTHING, ()
        if "tidegauge_check_lease" in text:
            self._listener.lock(*values)
            return _NOTHING, ()
        if "application_name = " in text:
            self._listener.end_sessions(*values)
        if text.startswith("UPDATE holder SET id"):
            self._listener.replace(values[_FORMER_ID[len(values)]])
        for pattern, whole in _WHOLE:
            if pattern.search(text):
                return whole, ()
        for pattern, part in _PARTS:
            text = pattern.sub(part, text)
        return text, values

    def _begin_or_commit(self, text: str) -> None:
        if text == "BEGIN":
            self._has_news = False
            self._listener.start()
            return
        self._listener.commit()
        if self._has_news:
            self._listener.notify()
