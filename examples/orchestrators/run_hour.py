"""The job of these examples: count the rows of an hour of a table at a version, into SQLite.

It may run twice for an hour, if it is killed while it runs, as any job may. And a run of an older
version may come last: it was slow, or somebody repeated it. So the output has the version that it
was made of, and an older one writes nothing, in the transaction that writes.
"""

import sqlite3
import sys
from contextlib import closing
from datetime import datetime

from deltalake import DeltaTable, QueryBuilder

_HOURS = (
    "CREATE TABLE IF NOT EXISTS hours (start TEXT PRIMARY KEY, rows INT, version INT, runs INT)"
)
_WRITE = """
INSERT INTO hours VALUES (?, ?, ?, 1) ON CONFLICT (start) DO UPDATE
SET rows = excluded.rows, version = excluded.version, runs = runs + 1
WHERE excluded.version >= version
"""


def run(table: str, database: str, start: str, end: str, version: str) -> None:
    """Count the rows from ``start`` to ``end``, RFC 3339 in UTC."""
    low, high = (datetime.fromisoformat(time).isoformat() for time in (start, end))
    # Not through Arrow's datasets: a process that read one may abort when it ends (deltalake 1.6).
    rides = QueryBuilder().register("rides", DeltaTable(table, version=int(version)))
    count = f"SELECT count(*) AS n FROM rides WHERE t >= '{low}' AND t < '{high}'"  # noqa: S608 (times)
    rows = rides.execute(count).read_all()["n"][0].as_py()
    with closing(sqlite3.connect(database, timeout=60)) as output, output:
        output.execute(_HOURS)
        output.execute(_WRITE, (low, rows, int(version)))


if __name__ == "__main__":
    run(*sys.argv[1:])
