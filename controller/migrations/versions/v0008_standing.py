"""Where writers stand, and two clocks of each, in the changelogs."""

from typing import Any

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_SHARED_KEY = 0
_encode, _decode = msgspec.msgpack.encode, msgspec.msgpack.decode


def upgrade() -> None:
    """Write every entry anew: who is live stands at its latest time, and its clocks start anew."""
    connection = op.get_bind()
    rows = connection.execute(sa.text("SELECT stream_key, number FROM changelog")).all()
    one_row = "WHERE stream_key = :stream_key AND number = :number"
    read = sa.text(f"SELECT entry FROM changelog {one_row}")  # noqa: S608
    write = sa.text(f"UPDATE changelog SET entry = :entry {one_row}")  # noqa: S608
    for row in rows:
        stored = connection.execute(read, row._asdict()).scalar_one()
        if row.stream_key == _SHARED_KEY:
            entry = _encode([(key, text and _entry(text)) for key, text in _decode(stored)])
        else:
            entry = _entry(stored)
        connection.execute(write, {**row._asdict(), "entry": entry})


def _entry(text: bytes) -> bytes:
    reports, forgotten, writers, _holds, counters, reach = _decode(text)
    looks: list[Any] = []
    rows = [_writer(*row) for row in writers]
    return _encode([reports, forgotten, rows, looks, counters, reach, None])


def _writer(*row: Any) -> list[Any]:  # noqa: ANN401 (as it was stored)
    *first, reported, _proved, gone_ms, _hold_since_ms, heard_ms, kept = row
    standing, time = first[2:4]
    clocks = {
        "stand": time,
        "stands_by_report": time is not None,
        "grace": True,
        "ended_time": None,
        "ended_revision": 0,
        "first_time": time,
        "found_time": None,
        "found_ms": None,
        "silence_stamp": None,
        "limit_stamp": None,
        "gone_ms": gone_ms,
        "gone_watermark": None,
        "pace_time": None if gone_ms is None else time,
        "pace_ms": gone_ms,
        "is_front": False,
        "is_fresh": standing == "live",
        "is_heard": False,
    }
    return [*first, reported, heard_ms, kept, list(clocks.values())]
