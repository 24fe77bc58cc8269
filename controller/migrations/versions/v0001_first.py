"""The first schema."""

from uuid import uuid4

from alembic import op

revision = "first"
down_revision = None

_STREAM_KEY = "stream_key INTEGER NOT NULL"
_TABLES = f"""
CREATE TABLE streams (
    key INTEGER NOT NULL, scope TEXT NOT NULL, stream TEXT NOT NULL, stream_id TEXT NOT NULL,
    created_ms BIGINT NOT NULL, config TEXT NOT NULL, topology TEXT NOT NULL, load TEXT,
    truncation TEXT, PRIMARY KEY (key), UNIQUE (scope, stream), UNIQUE (stream_id)
);
CREATE TABLE deleted_streams (key INTEGER NOT NULL, PRIMARY KEY (key));
CREATE TABLE marks (
    {_STREAM_KEY}, revision BIGINT NOT NULL, lower BIGINT NOT NULL, upper BIGINT NOT NULL,
    cut TEXT NOT NULL, created_ms BIGINT NOT NULL, PRIMARY KEY (stream_key, revision)
) <no rowid>;
CREATE TABLE holds (
    {_STREAM_KEY}, number BIGINT NOT NULL, since_ms BIGINT NOT NULL, until_ms BIGINT NOT NULL,
    began_ms BIGINT NOT NULL, held_ms BIGINT NOT NULL, watermark BIGINT, reached BIGINT,
    writer TEXT NOT NULL, others INTEGER NOT NULL, silence_ms BIGINT NOT NULL,
    reported BOOLEAN NOT NULL, unheard_ms BIGINT NOT NULL, ending TEXT NOT NULL,
    PRIMARY KEY (stream_key, number)
) <no rowid>;
CREATE INDEX ix_holds_until_ms ON holds (until_ms);
CREATE TABLE changelog (
    {_STREAM_KEY}, number BIGINT NOT NULL, entry <bytes> NOT NULL,
    PRIMARY KEY (stream_key, number)
);
CREATE TABLE listening (
    one INTEGER NOT NULL, listening_ms BIGINT NOT NULL, PRIMARY KEY (one),
    CONSTRAINT one_stamp CHECK (one = 1)
);
CREATE TABLE identity (
    one INTEGER NOT NULL, id TEXT NOT NULL, PRIMARY KEY (one), CONSTRAINT one_identity CHECK (one = 1)
);
CREATE TABLE holder (
    one INTEGER NOT NULL, id TEXT NOT NULL, address TEXT NOT NULL, lease_ms BIGINT NOT NULL,
    number BIGINT NOT NULL, is_free BOOLEAN NOT NULL, server TEXT NOT NULL, PRIMARY KEY (one), UNIQUE (id), CONSTRAINT one_holder CHECK (one = 1)
);
CREATE TABLE reader_groups (
    scope TEXT NOT NULL, reader_group TEXT NOT NULL, settings TEXT NOT NULL,
    revision BIGINT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (scope, reader_group)
);
CREATE TABLE chunks (
    {_STREAM_KEY}, segment INTEGER NOT NULL, first_offset BIGINT NOT NULL,
    events BIGINT NOT NULL, running_time BIGINT, size BIGINT NOT NULL, data <bytes> NOT NULL,
    append_time BIGINT NOT NULL, PRIMARY KEY (stream_key, segment, first_offset)
);
CREATE INDEX chunks_by_running_time ON chunks (
    stream_key, segment, running_time, first_offset, events, size, append_time
);
CREATE TABLE append_sequences (
    {_STREAM_KEY}, writer TEXT NOT NULL, segment INTEGER NOT NULL, incarnation BIGINT NOT NULL,
    sequence BIGINT NOT NULL, next_offset BIGINT NOT NULL,
    PRIMARY KEY (stream_key, writer, segment)
) <no rowid>;
CREATE TABLE outcomes (
    {_STREAM_KEY}, kind TEXT NOT NULL, name TEXT NOT NULL, state TEXT, outcome TEXT NOT NULL,
    finished_ms BIGINT, PRIMARY KEY (stream_key, kind, name)
) <no rowid>;
CREATE INDEX ix_outcomes_finished_ms ON outcomes (finished_ms);
CREATE INDEX outcomes_by_state ON outcomes (stream_key, state, name) WHERE state IS NOT NULL;
CREATE TABLE staged_chunks (
    {_STREAM_KEY}, transaction_id TEXT NOT NULL, ordinal BIGINT NOT NULL, data <bytes> NOT NULL,
    PRIMARY KEY (stream_key, transaction_id, ordinal)
);
CREATE TABLE finished_stagings (
    {_STREAM_KEY}, transaction_id TEXT NOT NULL, PRIMARY KEY (stream_key, transaction_id)
) <no rowid>
"""
_DIALECTS = {
    "sqlite": {"<no rowid>": "WITHOUT ROWID", "<bytes>": "BLOB"},
    "postgresql": {"<no rowid>": "", "<bytes>": "BYTEA"},
}
_FENCE = """
CREATE FUNCTION tidegauge_check_lease(tenure text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM holder WHERE id = tenure FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'controller % has no lease', tenure USING ERRCODE = 'TG001';
    END IF;
END
$$
"""


def upgrade() -> None:
    """Make the tables."""
    dialect, tables = op.get_context().dialect.name, _TABLES
    for written, meant in _DIALECTS[dialect].items():
        tables = tables.replace(written, meant)
    for statement in tables.split(";"):
        op.execute(statement)
    op.execute(f"INSERT INTO identity VALUES (1, '{uuid4()}')")  # noqa: S608 (no value of others)
    if dialect == "postgresql":
        op.execute(_FENCE)
