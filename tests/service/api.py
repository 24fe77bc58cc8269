"""One stream over HTTP as tests use it: short names, JSON back, and answers short enough to quote."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import httpx

from reader_client import Reader, ReaderGroup, StreamClient
from tests.patience import wait_until
from tidegauge.client.blocks import Closing
from tidegauge.wire.events import NDJSON
from writer_client import TimeReporter, Writer

NOON = 1_704_110_400_000
"""2024-01-01T12:00:00Z, where most stories begin."""
MINUTE = 60_000
_BEAT_MS = 5_000


class Api(Closing):
    """Calls of one stream, with a client of their own; what is refused raises, but for ``hears``.

    What writers ``say`` and ``note`` is answered without what every answer carries (``stream_id``,
    ``final``) and without a ``hint`` that says nothing.
    """

    log = "external"

    def __init__(
        self,
        url: str,
        stream: str = "tests/one",
        *,
        transport: httpx.BaseTransport | None = None,
        pass_time: Callable[[int], None] = lambda _ms: None,
    ) -> None:
        self.client = httpx.Client(base_url=url, timeout=40, transport=transport)
        self.url = url
        self.name = stream
        self.path = f"/v1/streams/{stream}"
        self._pass_time = pass_time
        self._noted: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        self.client.close()

    @property
    def topic(self) -> str:
        """The name of its topic, where its log is one of Kafka."""
        return self.name.partition("/")[2]

    def create(self, **settings: object) -> Any:
        """Create the stream: one segment, and a pass after every change."""
        wanted = {"log": self.log, "segments": 1, "mark_interval_ms": 0} | settings
        return _json(self.client.put(self.path, json=wanted))

    def change(self, **settings: object) -> Any:
        """Change settings, whatever they are."""
        anyhow = {"if-match": "*"}
        return _json(self.client.patch(self.path, json=settings, headers=anyhow))

    def post(self, call: str, **body: object) -> Any:
        """Post to a call of the stream."""
        return _json(self.client.post(f"{self.path}/{call}", json=body))

    def get(self, call: str, **query: object) -> Any:
        """Get a call of the stream."""
        params = {name: str(value) for name, value in query.items()}
        return _json(self.client.get(f"{self.path}/{call}", params=params))

    def many(self, reports: Iterable[dict[str, object]]) -> None:
        """Note many times at once."""
        body = {"reports": [{"stream": self.name, **report} for report in reports]}
        answer = _json(self.client.post("/v1/note-times", json=body))
        assert {result["status"] for result in answer["results"]} == {200}

    def says(self, writer: str, call: str, **body: object) -> dict[str, Any]:
        """Let a writer call, and return the answer."""
        return _short(self.post(f"writers/{writer}/{call}", **body))

    def hears(self, writer: str, call: str, **body: object) -> dict[str, Any]:
        """Let a writer call, and return the refusal without its texts."""
        answer = self.client.post(f"{self.path}/writers/{writer}/{call}", json=body)
        assert answer.is_error, answer.text
        texts = {"type", "title", "detail"}
        return {name: value for name, value in answer.json().items() if name not in texts}

    def note(
        self, writer: str, time: int, offset: int | None = None, **more: object
    ) -> dict[str, Any]:
        """Let a writer note a time, at an offset of segment 0."""
        position = {} if offset is None else {"0": offset}
        self._noted[writer] = {"time": time, "position": position, **more}
        return self.says(writer, "note-time", **self._noted[writer])

    def until(self, condition: Callable[[], bool], *, beating: str) -> None:
        """Wait while a writer repeats what it noted: so time passes for the clocks of others."""

        def beat() -> bool:
            self._pass_time(_BEAT_MS)
            self.says(beating, "note-time", **self._noted[beating])
            return condition()

        wait_until(beat)

    def writer(self, name: str = "api-1", **options: Any) -> Writer:
        """Make a client that writes to the stream."""
        return Writer(self.url, self.name, name, **options)

    def reporter(self, name: str = "api-1", **options: Any) -> TimeReporter:
        """Make a client that notes time for the stream."""
        return TimeReporter(self.url, self.name, name, **options)

    def group(self) -> ReaderGroup:
        """Make a client of the group that has the name of the stream."""
        return ReaderGroup(self.url, self.name)

    def reader(self, name: str = "one") -> Reader:
        """Make a reader of that group."""
        return Reader(self.url, self.name, name)

    def write(self, *events: tuple[str, int | None] | tuple[str, int | None, str]) -> None:
        """Append events of these keys, times and perhaps values, by nobody."""
        names = "key", "event_time", "value"
        lines = [dict(zip(names, (*event, "v"), strict=False)) for event in events]
        self.client.post(
            f"{self.path}/events",
            content="\n".join(map(json.dumps, lines)),
            headers={"content-type": NDJSON},
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
    def mark(self) -> Any:
        """``lower`` and cut of the newest mark, if there is one."""
        mark = self.get("watermark")["mark"]
        return mark and (mark["lower"], mark["cut"])

    def explanation(self) -> dict[str, Any]:
        """Why the watermark is where it is."""
        explained: dict[str, Any] = self.get("watermark")["explanation"]
        return explained

    def states(self) -> dict[str, str]:
        """The state of every writer."""
        return {writer["writer"]: writer["state"] for writer in self.writers()}

    def writers(self, **query: object) -> Iterator[dict[str, Any]]:
        """List writers, page by page."""
        page = self.get("writers", **query)
        yield from page["writers"]
        while page["cursor"] is not None:
            page = self.get("writers", **query, cursor=page["cursor"])
            yield from page["writers"]


Open: TypeAlias = Callable[..., Api]
"""Makes a stream of a test's own; takes its settings."""


def _json(response: httpx.Response) -> Any:
    response.raise_for_status()
    return response.json()


def _short(answer: dict[str, Any]) -> dict[str, Any]:
    left_out = {"stream_id", "final"} | ({"hint"} if answer.get("hint") is None else set())
    return {name: value for name, value in answer.items() if name not in left_out}
