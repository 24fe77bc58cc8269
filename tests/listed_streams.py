"""Streams as a list tells of them."""

from typing import Any

from tidegauge.wire.streams import StreamBrief

NOW = 1_800_000_000_000
STATES = {"joining": 0, "active": 1, "behind": 1, "expired": 0, "left": 0}


def brief_of(**given: Any) -> StreamBrief:
    """Make the entry of a stream that `slow` holds."""
    explained = given.pop("explained", {})
    explanation = {
        "reason": "holding",
        "stood_ms": None,
        "states": STATES,
        "holder": "slow",
        "holder_count": 1,
        "waiting_count": 1,
        "next_expiry_ms": 9_000,
        "hint": None,
    } | explained
    fields = {
        "stream": "a/b",
        "stream_id": "1",
        "watermark": NOW - 20_000,
        "final": False,
        "created_ms": NOW - 900_000,
        "revision": 7,
        "marked_ms": NOW - 1_000,
        "log": "embedded",
        "follows_clock": True,
        "drops_writers": True,
        "segments": 1,
        "events": 0,
        "explanation": explanation,
    } | given
    return StreamBrief.model_validate(fields)
