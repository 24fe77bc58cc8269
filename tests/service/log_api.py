"""Events of one stream over HTTP, as tests of the log use them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import httpx
import pyarrow as pa
import pyarrow.compute as pc

from tests.service.api import Api
from tidegauge.wire.columns import EVENT_SCHEMA, STORED_SCHEMA
from tidegauge.wire.events import ARROW, FIRST_OFFSET_HEADER, NDJSON

Event = tuple[str, int | None, bytes]


class Body(NamedTuple):
    """What a read answers with, before the client slices it."""

    first_offset: int
    table: pa.Table


class LogApi(Api):
    """The events of a stream, too; what its calls refuse comes back as the problem document."""

    log = "embedded"

    def register(self, writer: str = "w") -> dict[str, Any]:
        return self.says(writer, "register")

    def note_time(self, time: int, writer: str = "w", **fields: object) -> dict[str, Any]:
        """Note a time up to the tails, or at a position."""
        return self.says(writer, "note-time", time=time, **fields)

    def append(
        self,
        events: list[Event] | bytes,
        sequence: int,
        *,
        segment: int = 0,
        writer: str = "w",
        incarnation: int | None = 1,
        content_type: str = ARROW,
    ) -> dict[str, Any]:
        headers = {"tidegauge-writer": writer, "tidegauge-sequence": str(sequence)}
        if incarnation is not None:
            headers["tidegauge-incarnation"] = str(incarnation)
        headers["content-type"] = content_type
        return self.send(f"{self.path}/segments/{segment}/events", events, headers)

    def append_lines(
        self, lines: str, *, key: str | None = None, **params: Any
    ) -> dict[str, Any]:
        headers = {} if key is None else {"idempotency-key": key}
        return self.send(f"{self.path}/events", lines, headers, **params)

    def send(
        self, path: str, body: list[Event] | bytes | str, headers: dict[str, str], **params: Any
    ) -> dict[str, Any]:
        """Post events, or a body as it is: bytes of Arrow, or lines."""
        content_type = NDJSON if isinstance(body, str) else ARROW
        answer = self.client.post(
            path,
            content=arrow_of(body) if isinstance(body, list) else body,
            headers={"content-type": content_type} | headers,
            params=params,
        )
        return self.json(answer)

    def read(self, segment: int = 0, **params: int) -> Body:
        response = self.client.get(f"{self.path}/segments/{segment}/events", params=params)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == ARROW
        with pa.ipc.open_stream(response.content) as reader:
            return Body(int(response.headers[FIRST_OFFSET_HEADER]), reader.read_all())

    def refused_read(self, segment: int = 0, **params: int) -> dict[str, Any]:
        return self.json(
            self.client.get(f"{self.path}/segments/{segment}/events", params=params)
        )

    def events(self, segment: int = 0) -> list[Event]:
        return events_of(self.read(segment).table)

    def tail(self) -> dict[str, int]:
        tail: dict[str, int] = self.get("tail")["tail"]
        return tail

    def start_of(self, time: int) -> dict[str, int]:
        at = self.get("marks/at", time=time)
        assert at["exact"] is True
        start: dict[str, int] = at["start"]
        return start

    @staticmethod
    def json(response: httpx.Response) -> dict[str, Any]:
        answer: dict[str, Any] = response.json()
        if response.is_error:
            assert answer["status"] == response.status_code
        return answer


def arrow_of(events: Sequence[tuple[str | None, int | None, bytes | None]]) -> bytes:
    columns = list(zip(*events, strict=True)) or [(), (), ()]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, EVENT_SCHEMA, strict=True)
    ]
    return stream_of(pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA))


def stream_of(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def events_of(table: pa.Table) -> list[Event]:
    assert table.schema == STORED_SCHEMA
    assert pc.all(pc.is_valid(table["key"])).as_py() in {True, None}
    return [(row["key"], row["event_time"], row["value"]) for row in table.to_pylist()]


def numbered(first: int, count: int, *, key: str | None = None) -> list[Event]:
    return [(key or f"k{n}", n, b"%d" % n) for n in range(first, first + count)]
