"""Several controllers: who holds which stream, and until when."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

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
    op.create_table(
        "controllers",
        sa.Column("id", sa.BigInteger(), autoincrement=True, nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("listening_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    for table in ("streams", "reader_groups"):
        op.add_column(table, sa.Column("holder", sa.BigInteger(), nullable=True))
        op.create_index(f"ix_{table}_holder", table, ["holder"])
    op.add_column(
        "streams",
        sa.Column("listening_ms", sa.BigInteger(), server_default="0", nullable=False),
    )
    if op.get_context().dialect.name != "postgresql":
        return
    op.execute(_FENCE)
    op.execute("CREATE SEQUENCE stream_keys")
    op.execute("SELECT setval('stream_keys', max(key)) FROM streams HAVING max(key) > 0")
    op.execute(
        "UPDATE streams SET listening_ms = coalesce((SELECT max(l.listening_ms) FROM listening l), 0)"
    )
