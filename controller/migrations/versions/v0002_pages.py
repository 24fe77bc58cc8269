"""The reports of a transaction on one page, instead of each in a row of its own."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Write the reports that count onto the first page of each stream."""
    op.execute(
        "CREATE TABLE report_pages (stream_key INTEGER NOT NULL, page BIGINT NOT NULL, "
        "reports TEXT NOT NULL, PRIMARY KEY (stream_key, page))"
    )
    op.execute("ALTER TABLE writers ADD COLUMN since_serial BIGINT DEFAULT '0' NOT NULL")
    pages = list(_pages(op.get_bind()))
    if pages:
        insert = sa.text("INSERT INTO report_pages VALUES (:stream_key, 1, :reports)")
        op.get_bind().execute(insert, pages)
    op.drop_table("reports")


def _pages(connection: sa.Connection) -> Iterator[dict[str, Any]]:
    reports = sa.text(
        "SELECT stream_key, serial, writer, reports.time, reports.position "
        "FROM reports JOIN writers USING (stream_key, writer, incarnation) "
        "ORDER BY stream_key, serial"
    )
    by_stream = defaultdict(list)
    for stream_key, serial, writer, time, position in connection.execute(reports):
        by_stream[stream_key].append([serial, writer, time, json.loads(position)])
    for stream_key, rows in by_stream.items():
        yield {"stream_key": stream_key, "reports": json.dumps(rows)}
