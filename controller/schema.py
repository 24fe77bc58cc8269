"""The tables. Positions and cuts are JSON objects with segment numbers as keys."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
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
    Column("load", Text),
    Column("truncation", Text),
    UniqueConstraint("scope", "stream"),
)
"""``truncation`` says where the embedded log of the stream begins, null while at its first events;
``load`` is what the scaling policy knows, null without one."""

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

holds = Table(
    "holds",
    metadata,
    Column("stream_key", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False, index=True),
    Column("began_ms", BigInteger, nullable=False),
    Column("held_ms", BigInteger, nullable=False),
    Column("watermark", BigInteger),
    Column("reached", BigInteger),
    Column("writer", Text, nullable=False),
    Column("others", Integer, nullable=False),
    Column("silence_ms", BigInteger, nullable=False),
    Column("reported", Boolean, nullable=False),
    Column("unheard_ms", BigInteger, nullable=False),
    Column("ending", Text, nullable=False),
    sqlite_with_rowid=False,
)
"""Who held the watermark; the columns are the fields of `tidegauge.holds.Hold`, in order."""

changelog = Table(
    "changelog",
    metadata,
    Column("stream_key", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", LargeBinary, nullable=False),
)
"""What happened to the aggregations of streams, one row a transaction and stream."""

listening = Table(
    "listening",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("listening_ms", BigInteger, nullable=False),
    CheckConstraint("one = 1", name="one_stamp"),
)
"""The last stamp of listening time, in the only row."""

reader_groups = Table(
    "reader_groups",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("reader_group", Text, primary_key=True),
    Column("settings", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
)

identity = Table(
    "identity",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False),
    CheckConstraint("one = 1", name="one_identity"),
)
"""Which database this is, in the only row: a random id of the first revision, never changed."""

holder = Table(
    "holder",
    metadata,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, unique=True),
    Column("address", Text, nullable=False),
    Column("lease_ms", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("is_free", Boolean, nullable=False),
    Column("server", Text, nullable=False),
    CheckConstraint("one = 1", name="one_holder"),
)
"""The controller that holds the database, or that nobody does, in the only row; PostgreSQL only. The
random ``id`` is the fencing token, ``number`` that of its latest renewal, ``server`` where the row was
written: see `controller.cluster.lease`."""

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
    Column("append_time", BigInteger, nullable=False),
)
"""``running_time`` is the maximum of event time over the segment up to the chunk's end,
``append_time`` the greatest wall clock of an append within it."""
Index(
    "chunks_by_running_time",
    chunks.c.stream_key,
    chunks.c.segment,
    chunks.c.running_time,
    chunks.c.first_offset,
    chunks.c.events,
    chunks.c.size,
    chunks.c.append_time,
)
"""All but the data, so that chunks are listed without going through megabytes of it."""

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

outcomes = Table(
    "outcomes",
    metadata,
    Column("stream_key", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("state", Text),
    Column("outcome", Text, nullable=False),
    Column("finished_ms", BigInteger, index=True),
    sqlite_with_rowid=False,
)
"""What happens once. ``state`` is that of a transaction, which may be open; ``outcome`` is a JSON
array, see `controller.log.outcomes`; what has no ``finished_ms`` (wall clock) is kept."""
Index(
    "outcomes_by_state",
    outcomes.c.stream_key,
    outcomes.c.state,
    outcomes.c.name,
    sqlite_where=outcomes.c.state.is_not(None),
    postgresql_where=outcomes.c.state.is_not(None),
)

staged_chunks = Table(
    "staged_chunks",
    metadata,
    Column("stream_key", Integer, primary_key=True, autoincrement=False),
    Column("transaction_id", Text, primary_key=True),
    Column("ordinal", BigInteger, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)
"""Events of transactions, in the order in which they were staged, whatever their segments."""

finished_stagings = Table(
    "finished_stagings",
    metadata,
    Column("stream_key", Integer, primary_key=True, autoincrement=False),
    Column("transaction_id", Text, primary_key=True),
    sqlite_with_rowid=False,
)
"""Transactions that are finished, but whose staged chunks are not all removed: bit by bit."""
