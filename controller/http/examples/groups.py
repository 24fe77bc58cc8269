"""Examples of calls about reader groups."""

from typing import Any

from controller.http.examples.example import STREAM_ID, Example, facts

_GROUP = {"scope": "flights", "group": "delays"}
_READER = _GROUP | {"reader": "reader-1"}
_ONE = "/v1/reader-groups/{scope}/{group}"
_AT = _ONE + "/readers/{reader}"
_HERE = {"flights/departures": {"0": 0}}


def _state(*, readers: dict[str, Any], unassigned: dict[str, Any]) -> dict[str, Any]:
    return {
        "readers": readers,
        "unassigned": unassigned,
        "completed": {},
        "epochs": len(readers),
        "checkpoints": {},
    }


_NEW = {
    "group": "flights/delays",
    "streams": ["flights/departures"],
    "stream_ids": {"flights/departures": STREAM_ID},
    "heartbeat_ms": 3_000,
    "dead_after_ms": 15_000,
    "revision": 1,
    "state": _state(readers={}, unassigned=_HERE),
}
_OWNING = _state(readers={"reader-1": {"epoch": 1, "owned": _HERE}}, unassigned={})

GROUPS = (
    Example(
        call=f"PUT {_ONE}",
        path=_GROUP,
        body={"streams": ["flights/departures"]},
        status=201,
        answer=_NEW,
    ),
    Example(call=f"GET {_ONE}", path=_GROUP, answer=_NEW),
    Example(
        call="GET /v1/reader-groups",
        query={"limit": "10"},
        answer={"groups": [_NEW], "cursor": None},
    ),
    Example(
        call=f"POST {_AT}",
        path=_READER,
        answer={"reader": "reader-1", "epoch": 1, "owned": {}},
    ),
    Example(
        call=f"GET {_ONE}/state",
        path=_GROUP,
        answer=_state(readers={"reader-1": {"epoch": 1, "owned": {}}}, unassigned=_HERE),
    ),
    Example(
        call=f"PUT {_ONE}/state",
        path=_GROUP,
        headers={"If-Match": '"2"'},
        body=_OWNING,
        answer=_OWNING,
    ),
    Example(
        call=f"POST {_AT}/position",
        path=_READER,
        body={"epoch": 1, "position": {"flights/departures": {"0": 1}}},
        status=204,
    ),
    Example(call=f"POST {_AT}/heartbeat", path=_READER, body={"epoch": 1}, status=204),
    Example(
        call=f"GET {_ONE}/time-window",
        path=_GROUP,
        query={"stream": "flights/departures"},
        answer={
            "lower": 1_357_034_820_000,
            "upper": None,
            "position": {"0": 1},
            **facts(1_357_034_820_000),
        },
    ),
    Example(call=f"DELETE {_AT}", path=_READER, body={"epoch": 1}, status=204),
    Example(call=f"DELETE {_ONE}", path=_GROUP, status=204),
)
