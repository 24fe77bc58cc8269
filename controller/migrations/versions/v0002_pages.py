"""The reports of a transaction on one page, instead of each in a row of its own."""

import json
from collections import defaultdict

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_COUNTING = sa.text(
    "SELECT stream_key, serial, writer, reports.time, reports.position "
    "FROM reports JOIN writers USING (stream_key, writer, incarnation) "
    "ORDER BY stream_key, serial"
)
_INSERT = sa.text("INSERT INTO report_pages VALUES (:key, 1, :reports)")


def upgrade() -> None:
    """Write the reports that count onto the first page of each stream."""
    op.execute(
        "CREATE TABLE report_pages (stream_key INTEGER NOT NULL, page BIGINT NOT NULL, "
        "reports TEXT NOT NULL, PRIMARY KEY (stream_key, page))"
    )
    op.execute("ALTER TABLE writers ADD COLUMN since_serial BIGINT DEFAULT '0' NOT NULL")
    pages = defaultdict(list)
    for key, serial, writer, time, position in op.get_bind().execute(_COUNTING):
        pages[key].append([serial, writer, time, json.loads(position)])
    for key, reports in pages.items():
        op.get_bind().execute(_INSERT, {"key": key, "reports": json.dumps(reports)})
    op.execute("DROP TABLE reports")
