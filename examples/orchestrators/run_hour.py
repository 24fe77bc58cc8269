"""The job of these examples: count the rows of an hour of a table at a version, into a file.

It may run twice for an hour and a version, if it is killed while it runs, as any job may.
"""

import sys
from datetime import datetime

from deltalake import DeltaTable


def run(table: str, log: str, start: str, end: str, version: str) -> None:
    """Count the rows from ``start`` to ``end``, RFC 3339 in UTC."""
    low, high = map(datetime.fromisoformat, (start, end))
    # Not by to_pyarrow_dataset(): a process that read one may abort when it ends (deltalake 1.6).
    rows = DeltaTable(table, version=int(version)).to_pyarrow_table(
        filters=[("t", ">=", low), ("t", "<", high)]
    )
    with open(log, "a") as file:  # noqa: PTH123 (appended to, which pathlib cannot)
        file.write(f"{start} {rows.num_rows}\n")


if __name__ == "__main__":
    run(*sys.argv[1:])
