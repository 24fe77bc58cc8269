"""The tables. Positions and cuts are JSON objects with segment numbers as keys."""

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

streams = Table(
    "streams",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=False),
    Column("scope", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("stream_id", Text, nullable=False, unique=True),
    Column("created_ms", BigInteger, nullable=False),
    Column("config", Text, nullable=False),
    Column("topology", Text, nullable=False),
    Column("holder", BigInteger, index=True),
    Column("listening_ms", BigInteger, nullable=False, server_default="0"),
    Column("load", Text),
    UniqueConstraint("scope", "stream"),
)
"""``holder`` is the id of the controller that makes the marks, if several share the database.
``listening_ms`` is the stream's listening time beyond that of its holder, or, while it has none,
its listening time. ``load`` is what the scaling policy knows, null without one."""

deleted_streams = Table(
    "deleted_streams",
    metadata,
    Column("key", Integer, primary_key=True, autoincrement=False),
)
"""Streams that are gone, but not all of what belonged to them: it is removed bit by bit."""

marks = Table(
    "marks",
    metadata,
    Column("stream_key", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("lower", BigInteger, nullable=False),
    Column("upper", BigInteger, nullable=False),
    Column("cut", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Bounds rise with the revision, so that the primary key is the index for them too."""

changelog = Table(
    "changelog",
    metadata,
    Column("stream_key", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", LargeBinary, nullable=False),
)
"""What happened to the aggregations of streams, one row a transaction and stream; of a controller
that shares its database with no other, one row a transaction, under the key 0."""

listening = Table(
    "listening",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("listening_ms", BigInteger, nullable=False),
)

reader_groups = Table(
    "reader_groups",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("reader_group", Text, primary_key=True),
    Column("settings", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("holder", BigInteger, index=True),
)

controllers = Table(
    "controllers",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=True),
    Column("address", Text, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("listening_ms", BigInteger, nullable=False),
)
"""Leases. The id is the fencing token: it rises with every lease, and is gone with it."""

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
