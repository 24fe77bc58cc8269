"""The tables of the embedded event log."""

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text

from controller.schema import metadata

chunks = Table(
    "chunks",
    metadata,
    Column("stream_key", Integer, primary_key=True, autoincrement=False),
    Column("segment", Integer, primary_key=True, autoincrement=False),
    Column("first_offset", BigInteger, primary_key=True, autoincrement=False),
    Column("events", BigInteger, nullable=False),
    Column("running_time", BigInteger),
    Column("size", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""``running_time`` is the maximum of event time over the segment up to the chunk's end."""
Index(
    "chunks_by_running_time",
    chunks.c.stream_key,
    chunks.c.segment,
    chunks.c.running_time,
    chunks.c.first_offset,
)

append_sequences = Table(
    "append_sequences",
    metadata,
    Column("stream_key", Integer, primary_key=True, autoincrement=False),
    Column("writer", Text, primary_key=True),
    Column("segment", Integer, primary_key=True, autoincrement=False),
    Column("incarnation", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("next_offset", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("stream_key", Integer, primary_key=True, autoincrement=False),
    Column("idempotency_key", Text, primary_key=True),
    Column("fingerprint", Text, nullable=False),
    Column("position", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False, index=True),
    sqlite_with_rowid=False,
)
