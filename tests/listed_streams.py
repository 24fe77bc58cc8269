"""Streams, writers and groups as lists report them."""

from collections.abc import Mapping
from typing import Any

from controller.streams.judging import judged_of
from tidegauge.aggregation.changes import Paced
from tidegauge.wire.groups import ListedGroup
from tidegauge.wire.streams import BriefExplanation, StreamBrief
from tidegauge.wire.writers import WriterInfo

NOW = 1_800_000_000_000
UNWATCHED = Paced()
STATES = {"joining": 0, "active": 1, "behind": 1, "expired": 0, "left": 0}


def brief_of(paced: Paced = UNWATCHED, **given: Any) -> StreamBrief:
    """Make the entry of a stream that `slow` holds, judged by how it moved lately."""
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
    } | given
    stream = StreamBrief.model_validate(fields)
    shown = BriefExplanation.model_validate(explanation)
    judged = judged_of(stream, shown, paced, now_ms=NOW)
    return stream.model_copy(update={"explanation": shown, "judged": judged})


def writer_of(name: str, **given: Any) -> WriterInfo:
    """Make the entry of a writer of which little is known."""
    fields: dict[str, Any] = {"writer": name, "state": "active", "incarnation": 1}
    fields |= {"grace": False, "ended": False}
    return WriterInfo.model_validate(dict.fromkeys(WriterInfo.model_fields) | fields | given)


MARK = {"revision": 2, "lower": NOW, "upper": NOW, "cut": {1: 8, 2: 4}, "final": False}
LAZY = {"lazy": {"epoch": 1, "owned": {"a/b": {1: 3}}}}
"""A reader that has read three events of segment 1."""


def window_of(**given: Any) -> dict[str, Any]:
    """Make the time window of a group on a stream, of which a mark is to be read."""
    facts = {"stream": "a/b", "stream_id": "1", "watermark": NOW, "final": False}
    window = {"lower": None, "upper": NOW, "position": {}, "next_mark": MARK}
    return facts | window | given


def group_of(
    readers: Mapping[str, Any] = LAZY, *windows: dict[str, Any], **given: Any
) -> ListedGroup:
    """Make the entry of a group with some readers."""
    state = {
        "readers": readers,
        "unassigned": given.pop("unassigned", {}),
        "completed": {},
        "epochs": 2,
        "checkpoints": {},
    }
    fields = {
        "group": "a/g",
        "streams": ["a/b"],
        "stream_ids": {},
        "heartbeat_ms": 1,
        "dead_after_ms": 2,
        "revision": 1,
        "state": state,
        "windows": windows,
    } | given
    return ListedGroup.model_validate(fields)
