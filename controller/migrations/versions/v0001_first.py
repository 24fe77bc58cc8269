"""The schema before there were revisions."""

from alembic import op

revision = "0001"
down_revision = None

_STREAM_KEY = "stream_key INTEGER NOT NULL"
_TABLES = f"""
CREATE TABLE streams (
    key INTEGER NOT NULL, scope TEXT NOT NULL, stream TEXT NOT NULL, stream_id TEXT NOT NULL,
    created_ms BIGINT NOT NULL, config TEXT NOT NULL, topology TEXT NOT NULL,
    reporters BIGINT NOT NULL, forgotten_incarnation BIGINT NOT NULL,
    PRIMARY KEY (key), UNIQUE (scope, stream), UNIQUE (stream_id)
);
CREATE TABLE marks (
    {_STREAM_KEY}, revision BIGINT NOT NULL, lower BIGINT NOT NULL, upper BIGINT NOT NULL,
    cut TEXT NOT NULL, created_ms BIGINT NOT NULL, PRIMARY KEY (stream_key, revision)
) <no rowid>;
CREATE INDEX marks_by_lower ON marks (stream_key, lower);
CREATE INDEX marks_by_upper ON marks (stream_key, upper);
CREATE TABLE listening (
    id <serial> NOT NULL, listening_ms BIGINT NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE writers (
    {_STREAM_KEY}, writer TEXT NOT NULL, incarnation BIGINT NOT NULL, standing TEXT NOT NULL,
    time BIGINT, position TEXT NOT NULL, former_position TEXT NOT NULL, former_time BIGINT,
    reported BOOLEAN NOT NULL, proved BOOLEAN NOT NULL, gone_ms BIGINT, hold_since_ms BIGINT,
    heard_ms BIGINT, PRIMARY KEY (stream_key, writer)
) <no rowid>;
CREATE TABLE reports (
    {_STREAM_KEY}, serial BIGINT NOT NULL, writer TEXT NOT NULL, incarnation BIGINT NOT NULL,
    time BIGINT NOT NULL, position TEXT NOT NULL, PRIMARY KEY (stream_key, serial)
) <no rowid>;
CREATE TABLE chunks (
    {_STREAM_KEY}, segment INTEGER NOT NULL, first_offset BIGINT NOT NULL,
    events BIGINT NOT NULL, running_time BIGINT, size BIGINT NOT NULL, data <bytes> NOT NULL,
    PRIMARY KEY (stream_key, segment, first_offset)
);
CREATE INDEX chunks_by_running_time ON chunks (stream_key, segment, running_time, first_offset);
CREATE TABLE append_sequences (
    {_STREAM_KEY}, writer TEXT NOT NULL, segment INTEGER NOT NULL, incarnation BIGINT NOT NULL,
    sequence BIGINT NOT NULL, next_offset BIGINT NOT NULL,
    PRIMARY KEY (stream_key, writer, segment)
) <no rowid>;
CREATE TABLE idempotency_keys (
    {_STREAM_KEY}, idempotency_key TEXT NOT NULL, fingerprint TEXT NOT NULL,
    position TEXT NOT NULL, created_ms BIGINT NOT NULL,
    PRIMARY KEY (stream_key, idempotency_key)
) <no rowid>;
CREATE INDEX ix_idempotency_keys_created_ms ON idempotency_keys (created_ms);
CREATE TABLE reader_groups (
    scope TEXT NOT NULL, reader_group TEXT NOT NULL, settings TEXT NOT NULL,
    revision BIGINT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (scope, reader_group)
)
"""
_DIALECTS = {
    "sqlite": {"<no rowid>": "WITHOUT ROWID", "<serial>": "INTEGER", "<bytes>": "BLOB"},
    "postgresql": {"<no rowid>": "", "<serial>": "SERIAL", "<bytes>": "BYTEA"},
}


def upgrade() -> None:
    """Make the tables."""
    tables = _TABLES
    for written, meant in _DIALECTS[op.get_context().dialect.name].items():
        tables = tables.replace(written, meant)
    for statement in tables.split(";"):
        op.execute(statement)
