"""Transactions with their staged events, and the last batches of jobs."""

from alembic import op

revision = "0010"
down_revision = "0009"

_TABLES = """
CREATE TABLE transactions (
    stream_key INTEGER NOT NULL,
    transaction_id TEXT NOT NULL,
    writer TEXT NOT NULL,
    incarnation BIGINT NOT NULL,
    timeout_ms BIGINT NOT NULL,
    deadline_ms BIGINT NOT NULL,
    state TEXT NOT NULL,
    chunks BIGINT NOT NULL,
    events BIGINT NOT NULL,
    size BIGINT NOT NULL,
    sequences TEXT NOT NULL,
    position TEXT,
    finished_ms BIGINT,
    PRIMARY KEY (stream_key, transaction_id)
){short};
CREATE INDEX ix_transactions_finished_ms ON transactions (finished_ms);
CREATE INDEX transactions_by_state ON transactions (stream_key, state, transaction_id);
CREATE TABLE staged_chunks (
    stream_key INTEGER NOT NULL,
    transaction_id TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    data {bytes} NOT NULL,
    PRIMARY KEY (stream_key, transaction_id, ordinal)
);
CREATE TABLE finished_stagings (
    stream_key INTEGER NOT NULL,
    transaction_id TEXT NOT NULL,
    PRIMARY KEY (stream_key, transaction_id)
){short};
CREATE TABLE job_batches (
    stream_key INTEGER NOT NULL,
    writer TEXT NOT NULL,
    number BIGINT NOT NULL,
    PRIMARY KEY (stream_key, writer)
){short}
"""


def upgrade() -> None:
    """Make the tables."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    short, of_bytes = (" WITHOUT ROWID", "BLOB") if is_sqlite else ("", "BYTEA")
    for statement in _TABLES.format(short=short, bytes=of_bytes).split(";"):
        op.execute(statement)
