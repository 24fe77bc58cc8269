"""Statements for PostgreSQL, as SQLite takes them.

What a controller of several asks is PostgreSQL's, here and there. This rewrites it for one
serializable database: locks of rows are left out, since transactions follow one another, and
sessions of a server are never stuck. What is about those is tested with a real PostgreSQL.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import psycopg
from sqlalchemy import Engine, event

_LEASE = "SELECT 1 FROM controllers WHERE id = ? AND expires_at > clock_timestamp()"
_OFFSETS = (
    "UPDATE streams SET listening_ms = row.ms FROM (SELECT json_extract(value, '$[0]') AS key, "
    "json_extract(value, '$[1]') AS ms FROM json_each(?)) AS row WHERE streams.key = row.key"
)
_NOTHING = "SELECT 1 WHERE 0"
_WHOLE = (
    (re.compile(r"FROM pg_stat_activity WHERE pid = pg_backend_pid"), "SELECT 1, 1"),
    (re.compile(r"pg_terminate_backend"), _NOTHING),
    (re.compile(r"SET LOCAL|^LISTEN"), _NOTHING),
)
_PARTS = (
    (
        re.compile(r"INSERT INTO controllers \((.*)\) VALUES \("),
        r"INSERT INTO controllers (id, \1) VALUES (nextval('controllers'), ",
    ),
    (re.compile(r" \* interval '1 millisecond'"), ""),
    (
        re.compile(r"1000 \* extract\(epoch FROM (expires_at - clock_timestamp\(\))\)::float"),
        r"(\1)",
    ),
    (re.compile(r" FOR (NO KEY )?UPDATE( SKIP LOCKED)?"), ""),
    (re.compile(r" COLLATE \"C\""), ""),
    (re.compile(r"%s"), "?"),
)


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
        if "unnest(" in text:
            return _OFFSETS, (json.dumps(list(zip(*values, strict=True))),)
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
