"""A stream of orders as its writers and operators see it, with answers short enough to quote."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx

from reader_client import Reader, ReaderGroup, StreamClient
from tests.patience import wait_until
from tests.server import Api
from writer_client import TimeReporter, Writer

NOON = 1_704_110_400_000
"""2024-01-01T12:00:00Z, where most stories begin."""
MINUTE = 60_000
_BEAT_MS = 5_000
_NUMBERS = count(1)


class Shop(Api):
    """A stream of its own on a server that others use too.

    Answers come without what every answer carries (``stream_id``, ``final``) and without a
    ``hint`` that says nothing.
    """

    def __init__(
        self,
        url: str,
        *,
        transport: httpx.BaseTransport | None = None,
        pass_time: Callable[[int], None] = lambda _ms: None,
        **settings: object,
    ) -> None:
        super().__init__(url, f"shop/orders-{next(_NUMBERS)}", transport=transport)
        self.url = url
        self._pass_time = pass_time
        self._noted: dict[str, dict[str, Any]] = {}
        self.create(**settings)

    def writer(self, name: str = "api-1", **options: Any) -> Writer:
        """Make a client that writes to the stream."""
        return Writer(self.url, self.name, name, **options)

    def reporter(self, name: str = "api-1", **options: Any) -> TimeReporter:
        """Make a client that notes time for the stream."""
        return TimeReporter(self.url, self.name, name, **options)

    def says(self, writer: str, call: str, **body: object) -> dict[str, Any]:
        """Let a writer call, and return the answer."""
        return _short(self.post(f"writers/{writer}/{call}", **body))

    def hears(self, writer: str, call: str, **body: object) -> dict[str, Any]:
        """Let a writer call, and return the refusal without its texts."""
        answer = self.client.post(f"{self.path}/writers/{writer}/{call}", json=body)
        assert answer.is_error, answer.text
        texts = {"type", "title", "detail"}
        return {name: one for name, one in answer.json().items() if name not in texts}

    def notes(self, writer: str, time: int, offset: int, **more: object) -> dict[str, Any]:
        """Let a writer note a time at an offset of partition 0."""
        self._noted[writer] = {"time": time, "position": {"0": offset}, **more}
        return self.says(writer, "note-time", **self._noted[writer])

    def until(self, condition: Callable[[], bool], *, beating: str) -> None:
        """Wait while a writer repeats what it noted: so time passes for the clocks of others."""

        def beat() -> bool:
            self._pass_time(_BEAT_MS)
            self.says(beating, "note-time", **self._noted[beating])
            return condition()

        wait_until(beat)

    def group(self) -> ReaderGroup:
        """Make a client of the group that has the name of the stream."""
        return ReaderGroup(self.url, self.name)

    def reader(self, name: str = "one") -> Reader:
        """Make a reader of that group."""
        return Reader(self.url, self.name, name)

    def append(self, *events: tuple[str, int | None]) -> None:
        """Append events of these keys and times, by nobody."""
        lines = [{"key": key, "event_time": time, "value": "v"} for key, time in events]
        self.client.post(
            f"{self.path}/events",
            content="\n".join(map(json.dumps, lines)),
            headers={"content-type": "application/x-ndjson"},
        ).raise_for_status()

    def marks(self) -> list[tuple[int, dict[int, int]]]:
        """List ``lower`` and cut of the first marks."""
        with StreamClient(self.url, self.name) as client:
            return [(mark.lower, dict(mark.cut)) for mark in client.marks()]

    def stored(self, *columns: str) -> list[list[tuple[Any, ...]]]:
        """Read these columns of all events, segment by segment."""
        with StreamClient(self.url, self.name) as client:
            return [
                [
                    row
                    for events in client.read(segment, 0, end)
                    for row in zip(
                        *(events.batch.column(name).to_pylist() for name in columns),
                        strict=True,
                    )
                ]
                for segment, end in sorted(client.tail().tail.items())
            ]

    def numbers(self) -> list[int]:
        """Read the values of all events, which are numbers, in order of size."""
        return sorted(int(value) for rows in self.stored("value") for (value,) in rows)

    @property
    def watermark(self) -> int | None:
        """Where event time stands."""
        stands: int | None = self.get("watermark")["watermark"]
        return stands

    @property
    def mark(self) -> tuple[int, dict[str, int]]:
        """The newest mark: ``lower`` and cut."""
        mark = self.get("watermark")["mark"]
        return mark["lower"], mark["cut"]

    def explanation(self) -> dict[str, Any]:
        """Why the watermark is where it is."""
        explained: dict[str, Any] = self.get("watermark")["explanation"]
        return explained

    def states(self) -> dict[str, str]:
        """The state of every writer."""
        return {one["writer"]: one["state"] for one in self.writers()}

    def writers(self, **query: object) -> Iterator[dict[str, Any]]:
        """List writers, page by page."""
        page = self.get("writers", **query)
        yield from page["writers"]
        while page["cursor"] is not None:
            page = self.get("writers", **query, cursor=page["cursor"])
            yield from page["writers"]


Open = Callable[..., Shop]
"""Makes a stream of a test's own; takes its settings."""


def _short(answer: dict[str, Any]) -> dict[str, Any]:
    left_out = {"stream_id", "final"} | ({"hint"} if answer.get("hint") is None else set())
    return {name: one for name, one in answer.items() if name not in left_out}
