"""Statements about many rows, as each database takes them fastest.

SQLite's driver gives up and takes back the interpreter's lock once a statement, or once a row
of ``executemany``, and waits for it each time: many rows go into one. PostgreSQL takes any
number of rows as one parameter, so that the text is always the same and stays prepared; bytes,
which JSON cannot hold, and single rows go as with SQLite.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, LargeBinary, Table
from sqlalchemy.dialects import postgresql

_R = TypeVar("_R")
_ROWS_A_STATEMENT = 64
"""Each count of rows is a text of its own: many more would not stay prepared."""
_ROWS_A_PARAMETER = 10_000
"""More would take long to write down, while PostgreSQL waits inside the transaction."""
_SQLITE = "sqlite"
_POSTGRESQL = postgresql.dialect()  # type: ignore[no-untyped-call]

Rows = Sequence[tuple[Any, ...]]


def insert_rows(
    connection: Connection, table: Table, rows: Rows, *, conflict: str = ""
) -> None:
    """Insert whole rows, values in the order of the table's columns."""
    is_sqlite = connection.dialect.name == _SQLITE
    if is_sqlite or len(rows) == 1 or _has_bytes(table):
        for some in _parts(rows, _ROWS_A_STATEMENT):
            text = _insert_of_some(table, "?" if is_sqlite else "%s", len(some)) + conflict
            connection.exec_driver_sql(text, tuple(chain.from_iterable(some)))
    elif rows:
        _execute_with_many(connection, _insert_of_many(table) + conflict, _names(table), rows)


def replace_rows(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert whole rows, or replace those of the same primary key."""
    insert_rows(connection, table, rows, conflict=_replacing(table))


def delete_rows(connection: Connection, table: Table, keys: Rows) -> None:
    """Delete rows by their primary keys, or by the first columns of those."""
    if not keys:
        return
    names = _key_names(table)[: len(keys[0])]
    if connection.dialect.name == _SQLITE:
        for some in _parts(keys, _ROWS_A_STATEMENT):
            text = _delete_of_some(table, names, len(some))
            connection.exec_driver_sql(text, tuple(chain.from_iterable(some)))
    else:
        _execute_with_many(connection, _delete_of_many(table, names), names, keys)


def _execute_with_many(
    connection: Connection, text: str, names: tuple[str, ...], rows: Rows
) -> None:
    for some in _parts(rows, _ROWS_A_PARAMETER):
        listed = orjson.dumps([dict(zip(names, row, strict=True)) for row in some])
        connection.exec_driver_sql(text, (listed.decode(),))


def _parts(rows: Sequence[_R], size: int) -> Iterator[Sequence[_R]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _places(place: str, count: int) -> str:
    return f"({', '.join([place] * count)})"


@cache
def _names(table: Table) -> tuple[str, ...]:
    return tuple(f"{column.name}" for column in table.columns)


@cache
def _key_names(table: Table) -> tuple[str, ...]:
    return tuple(f"{column.name}" for column in table.primary_key)


@cache
def _has_bytes(table: Table) -> bool:
    return any(isinstance(column.type, LargeBinary) for column in table.columns)


@cache
def _insert_of_some(table: Table, place: str, count: int) -> str:
    row = _places(place, len(table.columns))
    rows = ", ".join([row] * count)
    return f"INSERT INTO {table.name} VALUES {rows}"  # noqa: S608 (our own names)


@cache
def _insert_of_many(table: Table) -> str:
    rows = _recordset(table, _names(table))
    return f"INSERT INTO {table.name} SELECT * FROM {rows}"  # noqa: S608 (our own names)


@cache
def _replacing(table: Table) -> str:
    keys = ", ".join(_key_names(table))
    values = ", ".join(
        f"{column.name} = excluded.{column.name}"
        for column in table.columns
        if not column.primary_key
    )
    return f" ON CONFLICT ({keys}) DO UPDATE SET {values}"


@cache
def _delete_of_some(table: Table, keys: tuple[str, ...], count: int) -> str:
    one = " AND ".join(f"{key} = ?" for key in keys)
    condition = " OR ".join([f"({one})"] * count)
    return f"DELETE FROM {table.name} WHERE {condition}"  # noqa: S608 (our own names)


@cache
def _delete_of_many(table: Table, keys: tuple[str, ...]) -> str:
    condition = " AND ".join(f"{table.name}.{key} = row.{key}" for key in keys)
    return (
        f"DELETE FROM {table.name} "  # noqa: S608 (our own names)
        f"USING {_recordset(table, keys)} WHERE {condition}"
    )


def _recordset(table: Table, names: tuple[str, ...]) -> str:
    columns = ", ".join(
        f'"{name}" {table.columns[name].type.compile(_POSTGRESQL)}' for name in names
    )
    return f"json_to_recordset(%s::json) AS row({columns})"
