"""One table for what happens once: idempotency keys, transactions and batches of jobs."""

from alembic import op

revision = "0013"
down_revision = "0012"

_STATEMENTS = """
DROP INDEX ix_idempotency_keys_created_ms;
CREATE TABLE outcomes (
    stream_key INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT,
    outcome TEXT NOT NULL,
    finished_ms BIGINT,
    PRIMARY KEY (stream_key, kind, name)
){short};
INSERT INTO outcomes SELECT stream_key, 'key', idempotency_key, NULL,
    CAST({array}(fingerprint, {position}, created_ms) AS TEXT), created_ms
    FROM idempotency_keys;
INSERT INTO outcomes SELECT stream_key, 'transaction', transaction_id, state,
    CAST({array}(transaction_id, writer, incarnation, timeout_ms, deadline_ms, state, chunks,
    events, size, {sequences}, {position}, finished_ms) AS TEXT), finished_ms
    FROM transactions;
INSERT INTO outcomes SELECT stream_key, 'job', writer, NULL,
    CAST({array}(number) AS TEXT), NULL
    FROM job_batches;
DROP TABLE idempotency_keys;
DROP TABLE transactions;
DROP TABLE job_batches;
CREATE INDEX ix_outcomes_finished_ms ON outcomes (finished_ms);
CREATE INDEX outcomes_by_state ON outcomes (stream_key, state, name) WHERE state IS NOT NULL
"""
"""The index goes first: its page is the new table's, so an empty database grows by none."""
_DIALECTS = {
    "sqlite": (" WITHOUT ROWID", "json_array", "json({})"),
    "postgresql": ("", "json_build_array", "{}::json"),
}


def upgrade() -> None:
    """Move the rows, and drop their three tables."""
    short, array, json = _DIALECTS[op.get_bind().dialect.name]
    position, sequences = json.format("position"), json.format("sequences")
    statements = _STATEMENTS.format(
        short=short, array=array, position=position, sequences=sequences
    )
    for statement in statements.split(";"):
        op.execute(statement)
