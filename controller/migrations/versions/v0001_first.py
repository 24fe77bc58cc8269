"""The schema before there were revisions."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    _make_streams()
    _make_writers()
    _make_log()
    _make_groups()


def _make_streams() -> None:
    op.create_table(
        "streams",
        sa.Column("key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("stream_id", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("topology", sa.Text(), nullable=False),
        sa.Column("reporters", sa.BigInteger(), nullable=False),
        sa.Column("forgotten_incarnation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        sa.UniqueConstraint("scope", "stream"),
        sa.UniqueConstraint("stream_id"),
    )
    op.create_table(
        "marks",
        sa.Column("stream_key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("lower", sa.BigInteger(), nullable=False),
        sa.Column("upper", sa.BigInteger(), nullable=False),
        sa.Column("cut", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stream_key", "revision"),
        sqlite_with_rowid=False,
    )
    op.create_index("marks_by_lower", "marks", ["stream_key", "lower"], unique=False)
    op.create_index("marks_by_upper", "marks", ["stream_key", "upper"], unique=False)
    op.create_table(
        "listening",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("listening_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )


def _make_writers() -> None:
    op.create_table(
        "writers",
        sa.Column("stream_key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=True),
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("former_position", sa.Text(), nullable=False),
        sa.Column("former_time", sa.BigInteger(), nullable=True),
        sa.Column("reported", sa.Boolean(), nullable=False),
        sa.Column("proved", sa.Boolean(), nullable=False),
        sa.Column("gone_ms", sa.BigInteger(), nullable=True),
        sa.Column("hold_since_ms", sa.BigInteger(), nullable=True),
        sa.Column("heard_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("stream_key", "writer"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "reports",
        sa.Column("stream_key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("serial", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("stream_key", "serial"),
        sqlite_with_rowid=False,
    )


def _make_log() -> None:
    op.create_table(
        "chunks",
        sa.Column("stream_key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("segment", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("events", sa.BigInteger(), nullable=False),
        sa.Column("running_time", sa.BigInteger(), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("stream_key", "segment", "first_offset"),
    )
    op.create_index(
        "chunks_by_running_time",
        "chunks",
        ["stream_key", "segment", "running_time", "first_offset"],
        unique=False,
    )
    op.create_table(
        "append_sequences",
        sa.Column("stream_key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("segment", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stream_key", "writer", "segment"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("stream_key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("stream_key", "idempotency_key"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_idempotency_keys_created_ms"), "idempotency_keys", ["created_ms"], unique=False
    )


def _make_groups() -> None:
    op.create_table(
        "reader_groups",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("reader_group", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "reader_group"),
    )
