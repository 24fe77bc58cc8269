"""A stream that a query writes to, and what a test reads from it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from reader_client import StreamClient
from tests.spark.feed import DAY, Feed
from tidegauge.event_time import END_OF_TIME


class Target(Feed):
    """One stream; times are told less a day, as a feed takes them."""

    def rows(self) -> list[tuple[str, int | None, Any]]:
        """Read key, time and value of everything that is there, in order of key and time."""
        stored = self._api.stored("key", "event_time", "value")
        rows = [(key, _less_a_day(at), value) for events in stored for key, at, value in events]
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
        return self._api.states()


class Logged(NamedTuple):
    """What Spark planned for a batch: its watermark, ms, and where the sources end."""

    watermark: int
    ends: list[dict[str, Any]]


def logged_batches(checkpoint: Path) -> list[Logged]:
    """Read the offset log of a query, as far back as Spark keeps it."""
    numbers = sorted(int(entry.name) for entry in (checkpoint / "offsets").glob("[0-9]*"))
    texts = [(checkpoint / "offsets" / str(number)).read_text() for number in numbers]
    return [
        Logged(json.loads(watermark)["batchWatermarkMs"], [json.loads(end) for end in ends])
        for _version, watermark, *ends in (text.split("\n") for text in texts)
    ]


def _less_a_day(time: int | None) -> int | None:
    return time if time is None or time == END_OF_TIME else time - DAY
