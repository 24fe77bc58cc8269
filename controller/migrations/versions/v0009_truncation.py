"""Where streams begin, and when chunks were appended."""

from alembic import op

revision = "0009"
down_revision = "0008"

_BY_TIME = "chunks (stream_key, segment, running_time, first_offset"


def upgrade() -> None:
    """Add the columns; the chunks that are there are of format 1, and nobody knows how old."""
    op.execute("ALTER TABLE streams ADD COLUMN truncation TEXT")
    op.execute("ALTER TABLE chunks ADD COLUMN append_time BIGINT")
    op.execute("ALTER TABLE chunks ADD COLUMN format INTEGER DEFAULT '1' NOT NULL")
    op.execute("DROP INDEX chunks_by_running_time")
    op.execute(f"CREATE INDEX chunks_by_running_time ON {_BY_TIME}, events, size, append_time)")
