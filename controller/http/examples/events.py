"""Examples of calls about events."""

import pyarrow as pa
from pyarrow import ipc

from controller.http.examples.example import STREAM, Example, facts
from tidegauge.wire.columns import EVENT_SCHEMA
from tidegauge.wire.events import (
    ARROW,
    INCARNATION_HEADER,
    NDJSON,
    SEQUENCE_HEADER,
    WRITER_HEADER,
)


def _arrow(event: dict[str, object]) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, EVENT_SCHEMA) as stream:
        stream.write_batch(pa.RecordBatch.from_pylist([event], EVENT_SCHEMA))
    body: bytes = sink.getvalue().to_pybytes()
    return body


_ONE = "/v1/streams/{scope}/{stream}"
_SEGMENT = STREAM | {"segment": "0"}
APPENDING = (
    Example(
        call=f"POST {_ONE}/events",
        path=STREAM,
        query={"writer": "carrier-AA", "incarnation": "1", "note_time": "1357034820000"},
        headers={"Content-Type": NDJSON},
        body='{"key": "JFK", "event_time": 1357034820000, "value": "AA 1141"}\n',
        answer={"position": {"0": 1}, **facts(1_357_034_820_000)},
    ),
    Example(
        call=f"POST {_ONE}/segments/{{segment}}/events",
        path=_SEGMENT,
        headers={
            "Content-Type": ARROW,
            WRITER_HEADER: "carrier-AA",
            INCARNATION_HEADER: "1",
            SEQUENCE_HEADER: "1",
        },
        body=_arrow({"key": "JFK", "event_time": 1_357_034_880_000, "value": b"AA 1895"}),
        answer={
            "segment": 0,
            "next_offset": 2,
            "sequence": 1,
            "duplicate": False,
            **facts(1_357_034_820_000),
        },
    ),
    Example(
        call=f"GET {_ONE}/segments/{{segment}}/events",
        path=_SEGMENT,
        query={"start": "0", "end": "2"},
    ),
)
