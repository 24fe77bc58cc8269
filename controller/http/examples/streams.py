"""Examples of calls about streams."""

from typing import Any

from controller.http.examples.example import STREAM, STREAM_ID, Example, facts, mark


def _stream(**settings: int) -> dict[str, Any]:
    return {
        "stream": "flights/departures",
        "created_ms": 1_357_030_800_000,
        "config": {
            "segments": 1,
            "log": "embedded",
            "max_segments": None,
            "scaling": "fixed",
            "aggregation_timeout_ms": 60_000,
            "min_writers": 0,
            "mark_interval_ms": 0,
            "mark_resolution_ms": 1_000,
            "mark_retention_ms": None,
            "writer_retention_ms": 604_800_000,
            "max_future_skew_ms": 86_400_000,
            **settings,
        },
        "topology": {
            "revision": 0,
            "segments": [
                {
                    "number": 0,
                    "low": 0.0,
                    "high": 1.0,
                    "predecessors": [],
                    "sealed_length": None,
                }
            ],
        },
        "revision": 0,
        "tail": {"0": 0},
        **facts(None),
    }


_ONE = "/v1/streams/{scope}/{stream}"
_END_OF_TIME = 2**63 - 1

BEGINNING = (
    Example(
        call=f"PUT {_ONE}",
        path=STREAM,
        body={"segments": 1, "mark_interval_ms": 0},
        status=201,
        answer=_stream(),
    ),
    Example(call=f"GET {_ONE}", path=STREAM, query={"stream_id": STREAM_ID}, answer=_stream()),
    Example(
        call="GET /v1/streams",
        query={"limit": "10"},
        answer={"streams": [_stream()], "cursor": None},
    ),
    Example(
        call=f"PATCH {_ONE}",
        path=STREAM,
        headers={"If-Match": "*"},
        body={"aggregation_timeout_ms": 300_000},
        answer=_stream(aggregation_timeout_ms=300_000),
    ),
)
END = (
    Example(
        call=f"POST {_ONE}/seal",
        path=STREAM,
        body={},
        answer={"mark": mark(6, _END_OF_TIME, 2), **facts(_END_OF_TIME, final=True)},
    ),
    Example(call=f"DELETE {_ONE}", path=STREAM, status=204),
)
