"""Examples of calls of and about writers."""

from typing import Any

from controller.http.examples.example import STREAM, Example, facts

WRITER = STREAM | {"writer": "carrier-AA"}
_ALL = "/v1/streams/{scope}/{stream}/writers"
_ONE = _ALL + "/{writer}"


def writer(state: str, time: int, *, offset: int, silent_ms: int) -> dict[str, Any]:
    """Describe the writer of the examples."""
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


NOTING = (
    Example(
        call=f"POST {_ONE}/register",
        path=WRITER,
        body={"time": "2013-01-01T10:00:00Z"},
        answer={
            "incarnation": 1,
            "state": "active",
            "position": {},
            "hint": None,
            **facts(1_357_034_400_000),
        },
    ),
    Example(
        call=f"POST {_ONE}/note-time",
        path=WRITER,
        body={"time": 1_357_034_700_000, "position": {"0": 0}, "incarnation": 1},
        answer={"state": "active", "hint": None, **facts(1_357_034_700_000)},
    ),
    Example(
        call="POST /v1/note-times",
        body={
            "reports": [
                {
                    "stream": "flights/departures",
                    "writer": "carrier-AA",
                    "time": 1_357_034_760_000,
                    "incarnation": 1,
                },
                {
                    "stream": "flights/departures",
                    "writer": "carrier-AA",
                    "time": 1_357_034_760_000,
                },
            ]
        },
        answer={
            "results": [
                {"status": 200, "state": "active", "hint": None, **facts(1_357_034_760_000)},
                {
                    "type": "urn:tidegauge:incarnation_required",
                    "title": "incarnation required",
                    "status": 409,
                    "code": "incarnation_required",
                    "detail": "writer 'carrier-AA' is registered; send its incarnation "
                    "(the newest is 1; from a shell --incarnation 1)",
                    "writer": "carrier-AA",
                    "incarnation": 1,
                },
            ]
        },
    ),
)
LEAVING = (
    Example(
        call=f"GET {_ALL}",
        path=STREAM,
        query={"state": "active"},
        answer={
            "writers": [writer("active", 1_357_034_820_000, offset=1, silent_ms=1_250)],
            "cursor": None,
            **facts(1_357_034_820_000),
        },
    ),
    Example(
        call=f"POST {_ONE}/expire",
        path=WRITER,
        answer={
            **writer("expired", 1_357_034_820_000, offset=1, silent_ms=1_300),
            "hint": None,
            **facts(1_357_034_820_000),
        },
    ),
    Example(
        call=f"POST {_ONE}/leave",
        path=WRITER,
        body={"time": 1_357_038_000_000, "incarnation": 1},
        answer={
            **writer("left", 1_357_038_000_000, offset=2, silent_ms=0),
            "hint": None,
            **facts(1_357_038_000_000),
        },
    ),
)
