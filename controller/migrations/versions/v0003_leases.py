"""Several controllers: who holds which stream, and until when."""

from alembic import op

revision = "0003"
down_revision = "0002"

_TABLES = """
CREATE TABLE controllers (
    id <serial> NOT NULL, address TEXT NOT NULL, expires_at <time> NOT NULL,
    listening_ms BIGINT NOT NULL, PRIMARY KEY (id)
);
ALTER TABLE streams ADD COLUMN holder BIGINT;
CREATE INDEX ix_streams_holder ON streams (holder);
ALTER TABLE reader_groups ADD COLUMN holder BIGINT;
CREATE INDEX ix_reader_groups_holder ON reader_groups (holder);
ALTER TABLE streams ADD COLUMN listening_ms BIGINT DEFAULT '0' NOT NULL
"""
_FENCE = """
CREATE FUNCTION tidegauge_check_lease(controller bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM controllers
        WHERE id = controller AND expires_at > clock_timestamp() FOR KEY SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'controller % has no lease', controller USING ERRCODE = 'TG001';
    END IF;
END
$$
"""


def upgrade() -> None:
    """Make the tables."""
    is_shared = op.get_context().dialect.name == "postgresql"
    serial, time = ("BIGSERIAL", "TIMESTAMPTZ") if is_shared else ("BIGINT", "DATETIME")
    for statement in _TABLES.replace("<serial>", serial).replace("<time>", time).split(";"):
        op.execute(statement)
    if is_shared:
        op.execute(_FENCE)
        op.execute("CREATE SEQUENCE stream_keys")
        op.execute("SELECT setval('stream_keys', max(key)) FROM streams HAVING max(key) > 0")
        last = "SELECT max(l.listening_ms) FROM listening l"
        op.execute(f"UPDATE streams SET listening_ms = coalesce(({last}), 0)")  # noqa: S608
