"""Where the embedded logs of streams begin, and what outlives their chunks, in rows of streams.

Every function runs inside a transaction that its caller owns.
"""

from collections.abc import Mapping
from typing import NamedTuple

import orjson
import sqlalchemy as sa

from controller.schema import streams
from tidegauge.topology import Position


class Truncation(NamedTuple):
    """Where a stream begins."""

    cut: Position
    running_times: Mapping[int, int | None]
    """The greatest event time of growing segments when the stream was last truncated, ms: what
    the chunks say of it goes with them."""

    @classmethod
    def load(cls, text: str | None) -> "Truncation":
        """Read it back; a stream that was never truncated begins at its first events."""
        stored = orjson.loads(text) if text else {"cut": {}, "running_times": {}}
        parts = (stored["cut"], stored["running_times"])
        return cls(*({int(number): value for number, value in one.items()} for one in parts))

    def dump(self) -> str:
        """Write it as JSON text."""
        return orjson.dumps(self._asdict(), option=orjson.OPT_NON_STR_KEYS).decode()


def read_truncation(connection: sa.Connection, stream_key: int) -> Truncation:
    """Read where a stream begins."""
    query = sa.select(streams.c.truncation).where(streams.c.key == stream_key)
    return Truncation.load(connection.execute(query).scalar_one())


def write_truncation(
    connection: sa.Connection, stream_key: int, truncation: Truncation
) -> None:
    """Store where a stream begins."""
    values = {"truncation": truncation.dump()}
    connection.execute(sa.update(streams).where(streams.c.key == stream_key).values(values))
