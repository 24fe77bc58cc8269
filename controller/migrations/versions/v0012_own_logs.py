"""On SQLite, a changelog of each stream instead of one for all."""

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_SHARED = "FROM changelog WHERE stream_key = 0"
_decode = msgspec.msgpack.Decoder(list[tuple[int, bytes]]).decode


def upgrade() -> None:
    """Give the entries of each row to their streams; those of deleted streams go."""
    connection = op.get_bind()
    there = set(connection.scalars(sa.text("SELECT key FROM streams")))
    insert = sa.text("INSERT INTO changelog VALUES (:key, :number, :entry)")
    forget = sa.text("DELETE FROM changelog WHERE stream_key = :key")
    for number in connection.scalars(sa.text(f"SELECT number {_SHARED} ORDER BY number")).all():
        row = sa.text(f"SELECT entry {_SHARED} AND number = :number")
        for key, entry in _decode(connection.execute(row, {"number": number}).scalar_one()):
            if not entry:  # the stream was deleted, and another may have its key
                connection.execute(forget, {"key": key})
            elif key in there:
                connection.execute(insert, {"key": key, "number": number, "entry": entry})
    connection.execute(sa.text(f"DELETE {_SHARED}"))
