"""A stream that a query writes to, and what a test reads from it."""

import json
from typing import Any

from reader_client import StreamClient
from tests.spark.feed import DAY, Feed
from tidegauge.event_time import END_OF_TIME


class Target(Feed):
    """One stream; times are told less a day, as a feed takes them."""

    def rows(self) -> list[tuple[str, int | None, Any]]:
        """Read key, time and value of everything that is there, in order of key and time."""
        with StreamClient(self.url, self.stream) as client:
            tail = client.tail().tail
            pages = [page.batch for one in tail for page in client.read(one, 0, tail[one])]
        found = [row for page in pages for row in page.to_pylist()]
        rows = [(one["key"], _less_a_day(one["event_time"]), one["value"]) for one in found]
        return sorted(rows, key=lambda row: (row[0], row[1] or 0))

    def counts(self) -> list[tuple[str, int | None, int]]:
        """Read key, time and count of windows that were written as JSON."""
        return [(key, time, json.loads(value)["count"]) for key, time, value in self.rows()]

    @property
    def watermark(self) -> int | None:
        """Where it stands."""
        with StreamClient(self.url, self.stream) as client:
            return _less_a_day(client.tail().watermark)

    @property
    def writers(self) -> dict[str, str]:
        """Who writes it, and in which state."""
        with StreamClient(self.url, self.stream) as client:
            return {one.writer: one.state for one in client.writers()}


def _less_a_day(time: int | None) -> int | None:
    return time if time in {None, END_OF_TIME} else time - DAY  # type: ignore[operator] # no None
