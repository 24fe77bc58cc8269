"""Examples of calls about marks and the tail."""

from controller.http.examples.example import STREAM, Example, facts, mark
from controller.http.examples.writers import writer

_ONE = "/v1/streams/{scope}/{stream}"
_NOW = 1_357_034_820_000

READING = (
    Example(
        call=f"GET {_ONE}/watermark",
        path=STREAM,
        answer={
            "stream": "flights/departures",
            "mark": mark(4, _NOW, 1),
            "explanation": {
                "reason": "caught_up",
                "sentence": "The watermark has stood at 2013-01-01T10:07:00.000Z for 1s: nobody "
                "is ahead, 'carrier-AA' spoke last, 1s ago; it rises once 'carrier-AA' notes a "
                "later time.",
                "cure": None,
                "stood_ms": 1_250,
                "states": {"joining": 0, "active": 1, "behind": 0, "expired": 0, "left": 0},
                "holders": [writer("active", _NOW, offset=1, silent_ms=1_250)],
                "holder_count": 1,
                "waiting": [],
                "waiting_count": 0,
                "returning": [],
                "returning_count": 0,
                "next_expiry_ms": None,
                "hint": None,
            },
            **facts(_NOW),
        },
    ),
    Example(
        call=f"GET {_ONE}/tail",
        path=STREAM,
        query={"after": "0:1", "revision": "2", "wait_ms": "10000"},
        answer={"tail": {"0": 2}, "topology_revision": 0, "revision": 4, **facts(_NOW)},
    ),
    Example(
        call=f"GET {_ONE}/marks",
        path=STREAM,
        query={"after": "2", "limit": "10", "wait_ms": "10000"},
        answer={"marks": [mark(3, 1_357_034_760_000, 0), mark(4, _NOW, 1)], **facts(_NOW)},
    ),
    Example(
        call=f"GET {_ONE}/marks/at",
        path=STREAM,
        query={"time": "2013-01-01T10:05:00Z"},
        answer={
            "time": 1_357_034_700_000,
            "start": {"0": 0},
            "exact": True,
            "stop": mark(2, 1_357_034_700_000, 0),
            **facts(_NOW),
        },
    ),
)
