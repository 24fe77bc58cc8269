"""An example of every call, in the order of a story that a test plays against a server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from tidegauge.errors import TransactionFinishedError
from tidegauge.wire import events as wire
from tidegauge.wire.columns import EVENT_SCHEMA
from tidegauge.wire.streams import CreateStream

_CREATED, _WALL = 1_357_030_800_000, 1_357_034_821_000
STREAM_ID = "0b9f3a52-7c1e-4d6b-9a58-2f6f1c7d8e90"
NAMES = {
    "scope": "flights",
    "stream": "departures",
    "segment": "0",
    "writer": "carrier-AA",
    "transaction": "6a1f7a52-9f0e-4c0b-8d0b-0c3f5d1e2a77",
    "number": "1",
    "group": "delays",
    "reader": "reader-1",
}
"""What all paths name."""


@dataclass(frozen=True, slots=True)
class Example:
    """One request and its answer; shown in the documentation, and run by a test.

    Attributes
    ----------
    call
        Method and path, as the route declares it.
    body
        JSON, or the text of another content type; bytes are shown as Base64.
    answer
        JSON, the beginning of a text, or None for a body that is not shown.
    """

    call: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    status: int = 200
    answer: Any = None

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.call.partition(" ")[0]

    @property
    def route(self) -> str:
        """The path with the names of its parameters."""
        return self.call.partition(" ")[2]

    @property
    def url(self) -> str:
        """The path with the values of its parameters."""
        return self.route.format_map(NAMES)


def _at(watermark: int | None, **said: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
    """Give an answer with what every answer about the stream says."""
    return {"stream_id": STREAM_ID, "watermark": watermark, "final": False, **said}


def _mark(revision: int, lower: int, offset: int) -> dict[str, Any]:
    said = {"revision": revision, "lower": lower, "upper": lower, "cut": {"0": offset}}
    return {**said, "marked_ms": _WALL, "final": lower == _END_OF_TIME}


def _segment(
    number: int, low: float, high: float, *before: int, sealed: int | None = None
) -> dict[str, Any]:
    known = {"number": number, "low": low, "high": high, "opened_ms": _CREATED}
    times = {"sealed_ms": None if sealed is None else _WALL}
    return {**known, **times, "predecessors": list(before), "sealed_length": sealed}


def _stream(**settings: int) -> dict[str, Any]:
    created = CreateStream(segments=1, mark_interval_ms=0).model_dump()
    config = {**created, "scaling": "fixed", **settings}
    return _at(
        None,
        stream="flights/departures",
        created_ms=_CREATED,
        marked_ms=None,
        explanation=None,
        config=config,
        topology={"revision": 0, "segments": [_segment(0, 0.0, 1.0)]},
        revision=0,
        tail={"0": 0},
        scaling=None,
        first_cut={"0": 0},
    )


def _writer(state: str, time: int, *, offset: int, silent_ms: int) -> dict[str, Any]:
    return {
        "writer": "carrier-AA",
        "state": state,
        "incarnation": 1,
        "time": time,
        "position": {"0": offset},
        "behind_ms": 0,
        "silent_ms": silent_ms,
        "stand": time,
        "stand_by": "noted",
        "silent_for_ms": None,
        "standing_for_ms": None,
        "clock": None,
        "expires_in_ms": None,
        "grace": state != "expired",
        "catch_up_ms": None,
    }


def _group_state(readers: dict[str, Any], unassigned: dict[str, Any]) -> dict[str, Any]:
    known = {"readers": readers, "unassigned": unassigned}
    return {**known, "completed": {}, "epochs": len(readers), "checkpoints": {}}


def _arrow(event: dict[str, object]) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, EVENT_SCHEMA) as stream:
        stream.write_batch(pa.RecordBatch.from_pylist([event], EVENT_SCHEMA))
    body: bytes = sink.getvalue().to_pybytes()
    return body


_STREAM = "/v1/streams/{scope}/{stream}"
_WRITER = _STREAM + "/writers/{writer}"
_SEGMENT = _STREAM + "/segments/{segment}"
_TRANSACTION = _STREAM + "/transactions/{transaction}"
_GROUP = "/v1/reader-groups/{scope}/{group}"
_READER = _GROUP + "/readers/{reader}"
_END_OF_TIME = 2**63 - 1
_NOW = 1_357_034_820_000

_SIGNED = {"stream": "flights/departures", "writer": "carrier-AA", "time": 1_357_034_760_000}
_REFUSED = {
    "type": "urn:tidegauge:incarnation_required",
    "title": "incarnation required",
    "status": 409,
    "code": "incarnation_required",
    "detail": "writer 'carrier-AA' is registered; send its incarnation (the newest is 1; from a "
    "shell --incarnation 1)",
    "writer": "carrier-AA",
    "incarnation": 1,
}
_ONE_ACTIVE = {"joining": 0, "active": 1, "behind": 0, "expired": 0, "left": 0}
_CAUGHT_UP = {
    "reason": "caught_up",
    "sentence": "The watermark has stood at 2013-01-01T10:07:00.000Z for 1s: nobody is ahead, "
    "'carrier-AA' spoke last, 1s ago; it rises once 'carrier-AA' notes a later time.",
    "cure": None,
    "command": None,
    "stood_ms": 1_250,
    "states": _ONE_ACTIVE,
    "holders": [_writer("active", _NOW, offset=1, silent_ms=1_250)],
    "holder_count": 1,
    "waiting": [],
    "waiting_count": 0,
    "returning": [],
    "returning_count": 0,
    "next_expiry_ms": None,
    "hint": None,
}
_HERE, _THERE = {"flights/departures": {"0": 0}}, {"flights/departures": {"0": 1}}
_NEW_GROUP = {
    "group": "flights/delays",
    "streams": ["flights/departures"],
    "stream_ids": {"flights/departures": STREAM_ID},
    "heartbeat_ms": 3_000,
    "dead_after_ms": 15_000,
    "revision": 1,
    "state": _group_state({}, _HERE),
}
_PROGRESS = {
    "bound": _NOW,
    "lag_ms": 0,
    "backlog": 0,
    "late": 3,
    "late_by_ms": 60_000,
    "late_writers": {"carrier-AA": 3},
    "late_output": 0,
    "partially_late": 0,
    "state_bytes": 20_480,
}
_OWNING = _group_state({"reader-1": {"epoch": 1, "owned": _HERE}}, {})
_EXPIRED = _writer("expired", _NOW + 60_000, offset=4, silent_ms=1_300)
_LEFT = _writer("left", 1_357_038_000_000, offset=4, silent_ms=0)
_SPLIT = [_segment(1, 0.0, 0.5, 0), _segment(2, 0.5, 1.0, 0)]
_LINKS = {
    "documentation": "/docs",
    "metrics": "/metrics",
    "openapi": "/openapi.json",
    "streams": "/v1/streams",
}

_OPEN = {"id": NAMES["transaction"], "state": "open"}
_BEGUN = {"writer": "carrier-AA", "incarnation": 1, "timeout_ms": 60_000}
_LINE = '{"key": "JFK", "event_time": 1357034940000, "value": "AA 67"}\n'
_STAGED = {**_OPEN, **_BEGUN, "events": 2, "size": 48, "position": None, "finished_ms": None}
_FINISHED = TransactionFinishedError(NAMES["transaction"], "committed").document()
_LINES = {"Content-Type": wire.NDJSON, wire.SEQUENCE_HEADER: "1"}
_CONTENT = {"Content-Type": wire.ARROW, wire.SEQUENCE_HEADER: "1"}

_NO_WRITERS = {
    "reason": "no_writers",
    "stood_ms": None,
    "states": {**_ONE_ACTIVE, "active": 0},
    "holder": None,
    "holder_count": 0,
    "waiting_count": 0,
    "next_expiry_ms": None,
    "hint": None,
}
_BRIEF = _at(
    None,
    stream="flights/departures",
    created_ms=_CREATED,
    revision=0,
    marked_ms=None,
    explanation=_NO_WRITERS,
    log="embedded",
    follows_clock=True,
    drops_writers=True,
    segments=1,
    events=0,
)
_WINDOW = _at(
    _NOW,
    stream="flights/departures",
    lower=1_357_034_760_000,
    upper=_NOW,
    position={"0": 0},
    next_mark=_mark(4, _NOW, 1),
)
_READER_1 = {"reader": "reader-1", "epoch": 1, "segments": 1}

EXAMPLES = (
    Example(
        f"PUT {_STREAM}",
        body={"segments": 1, "mark_interval_ms": 0},
        status=201,
        answer=_stream(),
    ),
    Example(f"GET {_STREAM}", query={"stream_id": STREAM_ID}, answer=_stream()),
    Example(
        "GET /v1/streams",
        query={"brief": "true", "explain": "true", "limit": "10"},
        answer={"streams": [_BRIEF], "cursor": None, "now_ms": _WALL},
    ),
    Example(
        f"PATCH {_STREAM}",
        headers={"If-Match": "*"},
        body={"aggregation_timeout_ms": 300_000},
        answer=_stream(aggregation_timeout_ms=300_000),
    ),
    Example(
        f"POST {_WRITER}/register",
        body={
            "time": "2013-01-01T10:00:00Z",
            "registration_id": "0191e2f65a1c7d3f",
        },
        answer=_at(
            1_357_034_400_000,
            incarnation=1,
            time=1_357_034_400_000,
            beat_ms=100_000,
            state="active",
            position={},
            hint=None,
        ),
    ),
    Example(
        f"POST {_WRITER}/note-time",
        body={"time": 1_357_034_700_000, "position": {"0": 0}, "incarnation": 1},
        answer=_at(1_357_034_700_000, state="active", hint=None),
    ),
    Example(
        "POST /v1/note-times",
        body={"reports": [{**_SIGNED, "incarnation": 1}, _SIGNED]},
        answer={
            "results": [
                _at(1_357_034_760_000, status=200, state="active", hint=None),
                _REFUSED,
            ]
        },
    ),
    Example(
        f"POST {_STREAM}/events",
        query={"writer": "carrier-AA", "incarnation": "1", "note_time": str(_NOW)},
        headers={"Content-Type": wire.NDJSON},
        body='{"key": "JFK", "event_time": 1357034820000, "value": "AA 1141"}\n',
        answer=_at(_NOW, position={"0": 1}),
    ),
    Example(
        f"POST {_SEGMENT}/events",
        headers={
            "Content-Type": wire.ARROW,
            wire.WRITER_HEADER: "carrier-AA",
            wire.INCARNATION_HEADER: "1",
            wire.SEQUENCE_HEADER: "1",
        },
        body=_arrow({"key": "JFK", "event_time": 1_357_034_880_000, "value": b"AA 1895"}),
        answer=_at(_NOW, segment=0, next_offset=2, sequence=1, duplicate=False),
    ),
    Example(f"GET {_SEGMENT}/events", query={"start": "0", "end": "2"}),
    Example(
        f"GET {_STREAM}/watermark",
        answer=_at(
            _NOW, stream="flights/departures", mark=_mark(4, _NOW, 1), explanation=_CAUGHT_UP
        ),
    ),
    Example(
        f"GET {_STREAM}/tail",
        query={"after": "0:1", "revision": "2", "wait_ms": "10000"},
        answer=_at(_NOW, tail={"0": 2}, first_cut={"0": 0}, topology_revision=0, revision=4),
    ),
    Example(
        f"GET {_STREAM}/marks",
        query={"after": "2", "limit": "10", "wait_ms": "10000"},
        answer=_at(
            _NOW, marks=[_mark(3, 1_357_034_760_000, 0), _mark(4, _NOW, 1)], now_ms=_WALL
        ),
    ),
    Example(
        f"GET {_STREAM}/marks/at",
        query={"time": "2013-01-01T10:05:00Z"},
        answer=_at(
            _NOW,
            time=1_357_034_700_000,
            start={"0": 0},
            exact=True,
            stop=_mark(2, 1_357_034_700_000, 0),
        ),
    ),
    Example(
        f"PUT {_GROUP}", body={"streams": ["flights/departures"]}, status=201, answer=_NEW_GROUP
    ),
    Example(f"POST {_GROUP}/progress", body=_PROGRESS, status=204),
    Example(
        "GET /v1/reader-groups",
        query={"windows": "true", "limit": "10"},
        answer={
            "groups": [{**_NEW_GROUP, "windows": [_WINDOW]}],
            "cursor": None,
            "now_ms": _WALL,
        },
    ),
    Example(f"POST {_READER}", answer={"reader": "reader-1", "epoch": 1, "owned": {}}),
    Example(
        f"GET {_GROUP}/state",
        answer=_group_state({"reader-1": {"epoch": 1, "owned": {}}}, _HERE),
    ),
    Example(f"PUT {_GROUP}/state", headers={"If-Match": '"2"'}, body=_OWNING, answer=_OWNING),
    Example(
        f"POST {_READER}/position",
        body={"epoch": 1, "position": {"flights/departures": {"0": 1}}},
        answer={"balanced": True},
    ),
    Example(f"POST {_READER}/heartbeat", body={"epoch": 1}, answer={"balanced": True}),
    Example(
        f"GET {_GROUP}",
        answer={
            **_NEW_GROUP,
            "revision": 4,
            "state": _group_state({"reader-1": {"epoch": 1, "owned": _THERE}}, {}),
            "progress": {**_PROGRESS, "silent_ms": 1_250},
            "readers": [{**_READER_1, "silent_ms": 0, "advanced_ms": 0}],
        },
    ),
    Example(
        f"GET {_GROUP}/time-window",
        answer={
            "group": "flights/delays",
            "lower": _NOW,
            "upper": None,
            "windows": [
                {
                    **_WINDOW,
                    "lower": _NOW,
                    "upper": None,
                    "position": {"0": 1},
                    "next_mark": None,
                }
            ],
            "now_ms": _WALL,
        },
    ),
    Example(f"DELETE {_READER}", body={"epoch": 1}, status=204),
    Example(f"DELETE {_GROUP}", status=204),
    Example(
        f"GET {_STREAM}/writers",
        query={"state": "active", "order": "slowest"},
        answer=_at(
            _NOW,
            writers=[_writer("active", _NOW, offset=1, silent_ms=1_250)],
            cursor=None,
            now_ms=_WALL,
        ),
    ),
    Example(
        f"GET {_WRITER}",
        answer=_at(_NOW, **_writer("active", _NOW, offset=1, silent_ms=1_250)),
    ),
    Example(
        f"POST {_STREAM}/transactions",
        body=_BEGUN,
        status=201,
        answer=_at(_NOW, **_OPEN, expires_in_ms=60_000),
    ),
    Example(
        f"POST {_TRANSACTION}/events",
        headers=_LINES,
        body=_LINE,
        answer=_at(_NOW, **_OPEN, sequence=1, duplicate=False),
    ),
    Example(
        f"POST {_TRANSACTION}/segments/{{segment}}/events",
        headers=_CONTENT,
        body=_arrow({"key": "JFK", "event_time": 1_357_034_940_000, "value": b"AA 68"}),
        answer=_at(_NOW, **_OPEN, sequence=1, duplicate=False),
    ),
    Example(f"POST {_TRANSACTION}/ping", answer=_at(_NOW, **_OPEN, expires_in_ms=60_000)),
    Example(f"GET {_TRANSACTION}", answer=_at(_NOW, **_STAGED, expires_in_ms=59_990)),
    Example(
        f"GET {_STREAM}/transactions",
        query={"state": "open"},
        answer=_at(
            _NOW, transactions=[{**_STAGED, "expires_in_ms": 59_990}], cursor=None, now_ms=_WALL
        ),
    ),
    Example(
        f"POST {_TRANSACTION}/commit",
        body={"time": "2013-01-01T10:08:00Z"},
        answer=_at(1_357_034_880_000, **_OPEN | {"state": "committed"}, position={"0": 4}),
    ),
    Example(f"POST {_TRANSACTION}/abort", status=409, answer=_FINISHED),
    Example(f"POST {_WRITER}/expire", answer=_at(_NOW + 60_000, **_EXPIRED, hint=None)),
    Example(
        f"POST {_WRITER}/leave",
        body={"time": 1_357_038_000_000, "incarnation": 1},
        answer=_at(1_357_038_000_000, **_LEFT, hint=None),
    ),
    Example(
        f"POST {_STREAM}/batches/{{number}}",
        query={"writer": "hourly", "note_time": "1357038000000"},
        headers={"Content-Type": wire.ARROW},
        body=_arrow({"key": "JFK", "event_time": 1_357_038_000_000, "value": b"67 flights"}),
        answer=_at(1_357_038_000_000, duplicate=False, last=1, position={"0": 5}),
    ),
    Example(
        f"POST {_STREAM}/scale",
        body={"seal": [0], "ranges": [[0, 0.5], [0.5, 1]], "topology_revision": 0},
        answer=_at(
            1_357_038_000_000,
            segments=_SPLIT,
            topology={"revision": 1, "segments": [_segment(0, 0.0, 1.0, sealed=5), *_SPLIT]},
        ),
    ),
    Example(
        f"POST {_STREAM}/truncate",
        body={"time": "2013-01-01T11:00:00Z"},
        answer=_at(1_357_038_000_000, first_cut={"0": 4}),
    ),
    Example(
        f"POST {_STREAM}/seal",
        body={},
        answer=_at(_END_OF_TIME, mark={**_mark(7, _END_OF_TIME, 0), "cut": {"1": 0, "2": 0}})
        | {"final": True},
    ),
    Example(f"DELETE {_STREAM}", status=204),
    Example(
        "GET /",
        headers={"Accept": "application/json"},
        answer={"version": version("tidegauge"), "streams": [], "more": False, "links": _LINKS},
    ),
    Example("GET /healthz", answer={"status": "ok"}),
    Example("GET /readyz", answer={"status": "ok"}),
    Example("GET /metrics", answer="# HELP tidegauge_"),
)
