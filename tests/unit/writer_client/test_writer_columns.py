"""What `write_many` takes, and what it says of the rest."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from writer_client._columns import in_parts, to_events
from writer_client._events import MOST_VALUE_BYTES

TWO = [
    {"key": "a", "event_time": 1_704_067_200_001, "value": b"one"},
    {"key": "\u00fc", "event_time": None, "value": b"two"},
]
KEYS, VALUES, TIMES = ["a", "\u00fc"], ["one", b"two"], [1_704_067_200_001, None]
AWARE = datetime(2024, 1, 1, 0, 0, 0, 1_999, tzinfo=UTC)
NULL_IN_A_DICTIONARY = pa.DictionaryArray.from_arrays([0], pa.array([None], pa.string()))
PARIS, TOKYO = ZoneInfo("Europe/Paris"), ZoneInfo("Asia/Tokyo")
AGAIN = [datetime(2025, 10, 26, 2, 30, 0, 1_999, PARIS, fold=fold) for fold in (0, 1)]
"""The same on clocks in Paris, an hour apart."""
NAIVE = datetime(2024, 1, 1)  # noqa: DTZ001 (that is the point)
TOO_LARGE = bytes(MOST_VALUE_BYTES + 1)
REFUSED = (
    "the value with key 'l' has 16711681 bytes, and the service takes 16711680; split it, or"
)
COLUMNS = {
    "value": pa.array([b"one", b"two"]),
    "key": pa.array(KEYS),
    "event_time": pa.array(TIMES, pa.uint64()),
}


@pytest.mark.parametrize(
    "given",
    [
        (VALUES, KEYS, TIMES),
        (tuple(VALUES), tuple(KEYS), [AWARE, None]),
        (COLUMNS["value"], COLUMNS["key"], COLUMNS["event_time"]),
        (pa.array(["one", "two"], pa.large_string()), KEYS, pa.array([AWARE, None])),
        (pa.chunked_array([["one"], ["two"]]), COLUMNS["key"].dictionary_encode(), TIMES),
        (pa.table(COLUMNS), None, None),
        (pa.record_batch(COLUMNS), None, None),
    ],
)
def test_lists_arrays_and_tables_are_the_same_events(given: tuple[Any, Any, Any]) -> None:
    assert to_events(*given).to_pylist() == TWO


@pytest.mark.parametrize(
    "times",
    [
        AGAIN,
        [AGAIN[0], AGAIN[1].astimezone(TOKYO)],
        pa.array(AGAIN, pa.timestamp("us", "Europe/Paris")),
        pa.array(AGAIN, pa.timestamp("us", "a zone that Arrow does not know")),
        pa.array(AGAIN, pa.timestamp("ns", "+05:30")),
        pa.array(AGAIN).dictionary_encode(),
    ],
)
def test_times_are_told_apart_in_the_hour_in_which_clocks_go_back(times: Any) -> None:
    keys, expected = ["k", "l"], [1_761_438_600_001, 1_761_442_200_001]
    assert to_events(["v", "w"], keys, times)["event_time"].to_pylist() == expected
    if isinstance(times, pa.Array):
        table = pa.table({"key": keys, "value": ["v", "w"], "event_time": times})
        assert to_events(table, None, None)["event_time"].to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "more"), [([], ([], None)), ([], ([], [])), (["v"], (["k"], None))]
)
def test_events_need_no_time_and_there_may_be_none(values: list[str], more: Any) -> None:
    assert to_events(values, *more).column("event_time").to_pylist() == [None] * len(values)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((["v"], ["k", "l"], None), "1 values and 2 keys; pass as many"),
        ((["v"], ["k"], []), "1 values and 0 event_times; pass as many"),
        ((["v"], None, None), "keys are missing; pass one for each value"),
        (("v", ["k"], None), "values is a single str; pass a list or an Arrow array"),
        ((["v", "w"], ["k", None], None), r"keys\[1\]: key is None; pass a string"),
        ((["v", "w"], ["k", b"l"], None), r"keys\[1\]: key is b'l'; pass a string"),
        ((["v", "w"], ["k", "\ud800"], None), r"keys\[1\]: 'utf-8' codec can't encode"),
        ((["v", 7], ["k", "l"], None), r"values\[1\]: value is int; pass bytes or str"),
        ((pa.array(["v", None]), ["k", "l"], None), r"values\[1\]: value is NoneType"),
        ((["v"], pa.array([7]), None), r"keys\[0\]: key is 7; pass a string"),
        ((["v", "w"], ["k", "l"], [1, 1.5]), r"event_times\[1\]: 1.5 is not an event time"),
        ((["v"], ["k"], [True]), r"event_times\[0\]: True is not an event time"),
        ((["v"], ["k"], [2**63]), r"event_times\[0\]: 9223372036854775808 does not fit"),
        (
            (["v"], ["k"], [2**63 - 1]),
            r"event_times\[0\]: 9223372036854775807 is the end of time",
        ),
        (
            (["v", "w"], ["k", "l"], [1, 1_704_067_200_000_000]),
            r"event_times\[1\]: .* are these microseconds\? .* 1704067200000; its key is 'l'",
        ),
        (
            (["v"], ["k"], pa.array([1_704_067_200_000_000_000], pa.timestamp("us", "UTC"))),
            r"event_times\[0\]: .* 1704067200000000, which lies beyond .*; its key is 'k'",
        ),
        ((["v"], NULL_IN_A_DICTIONARY, None), r"keys\[0\]: key is None; pass a string"),
        ((["v"], ["k"], [NAIVE]), r"event_times\[0\]: .* has no time zone"),
        ((["v"], ["k"], pa.array([NAIVE])), r"event_times\[0\]: .* has no time zone"),
        ((["v", "w"], ["k", "l"], [AWARE, NAIVE]), r"event_times\[1\]: .* has no time zone"),
        ((pa.table(COLUMNS), KEYS, None), "a table has its keys and event times in columns"),
        ((pa.table({"value": ["v"]}), None, None), r"has columns \['value'\]; pass key, value"),
        ((pa.table({"a": [1], "key": ["k"], "value": ["v"]}), None, None), "has columns"),
        ((["v", TOO_LARGE], ["k", "l"], None), rf"values\[1\]: {REFUSED}"),
        ((pa.array(["v", TOO_LARGE]), ["k", "l"], None), rf"values\[1\]: {REFUSED}"),
    ],
)
def test_what_is_wrong_is_named_with_its_index(given: tuple[Any, Any, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        to_events(*given)


def test_parts_have_about_so_many_bytes() -> None:
    events = to_events(["x" * 90] * 100, ["key-1"] * 100, None)
    assert [len(part) for part in in_parts(events, 2_500)] == [22, 22, 22, 22, 12]
    assert [len(part) for part in in_parts(events, 1)] == [1] * 100
