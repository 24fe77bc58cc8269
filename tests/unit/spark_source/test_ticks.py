"""Which bound a source of ticks hands over, from made-up offset logs and marks."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from spark_source.checkpoints.checkpoint import Checkpoint
from spark_source.checkpoints.ticks import (
    TickOffset,
    check_log,
    check_topic,
    next_offset,
    position_of,
)
from spark_source.errors import (
    CheckpointError,
    LogReplacedError,
    UnfollowedTopicError,
    WrongCheckpointError,
)
from tidegauge.event_time import END_OF_TIME
from tidegauge.marks import Mark

_FRESH = TickOffset("s", "orders")
_STANDING = TickOffset("s", "orders", bound=5_000, revision=3, run="a")


def _mark(lower: int, revision: int = 9) -> Mark:
    return Mark(revision=revision, lower=lower, upper=lower, cut={})


def _log(folder: Path, number: int, version: str, *ends: object) -> None:
    (folder / "offsets").mkdir(exist_ok=True)
    lines = ["-" if end is None else json.dumps(end) for end in ends]
    if version == "v2":
        lines = [f"{place}:{line}" for place, line in enumerate(lines)]
    text = "\n".join([version, json.dumps({"batchWatermarkMs": 0}), *lines])
    (folder / "offsets" / str(number)).write_text(text)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_newest_entry_of_the_offset_log_counts_in_either_format(
    tmp_path: Path, version: str
) -> None:
    for number in (9, 10):
        _log(tmp_path, number, version, {"orders": {"0": number}}, None, 17)
    (tmp_path / "offsets" / ".11.crc").write_text("what")
    (tmp_path / "offsets" / ".11.6f1.tmp").write_text("half")
    assert Checkpoint(str(tmp_path)).newest_ends() == [{"orders": {"0": 10}}, None, 17]


def test_a_checkpoint_that_is_not_there_yet_has_no_batch(tmp_path: Path) -> None:
    assert Checkpoint(f"file://{tmp_path}/none").newest_ends() == []


def test_an_offset_log_of_a_format_to_come_is_refused(tmp_path: Path) -> None:
    _log(tmp_path, 0, "v3")
    with pytest.raises(CheckpointError, match="offsets/0 is of format v3"):
        Checkpoint(str(tmp_path)).newest_ends()


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_bucket_is_found_by_the_names_of_spark_and_of_arrow(scheme: str) -> None:
    checkpoint = Checkpoint(f"{scheme}://bucket/orders?region=eu-west-1")
    assert isinstance(checkpoint._files, fs.S3FileSystem)
    assert checkpoint._root == "bucket/orders"


def test_a_position_is_found_by_topic_and_not_by_place() -> None:
    others: list[Any] = [{"logOffset": 3}, 17, _STANDING.to_json(), {"returns": {"0": 1}}]
    assert position_of("orders", [*others, {"orders": {"0": 40, "1": 12}}]) == {0: 40, 1: 12}
    assert position_of("returns", [*others, {"orders": {"0": 40, "1": 12}}]) == {0: 1}


def test_of_several_sources_of_a_topic_the_one_that_is_furthest_behind_counts() -> None:
    ends = [{"orders": {"0": 40, "1": 12, "2": 5}}, {"orders": {"0": 30, "1": 15}}]
    assert position_of("orders", ends) == {0: 30, 1: 12, 2: 0}


@pytest.mark.parametrize("unknown", [None, {}])
def test_a_source_that_was_not_planned_yet_may_be_the_one(unknown: object) -> None:
    assert position_of("orders", [_STANDING.to_json(), unknown]) is None


def test_a_topic_that_no_source_reads_is_named_with_those_that_are_read() -> None:
    with pytest.raises(UnfollowedTopicError, match=r"'orders'.*sources read offers, returns"):
        position_of("orders", [{"returns": {"0": 1}}, {"offers": {"0": 1}}])
    with pytest.raises(UnfollowedTopicError, match="it has none"):
        position_of("orders", [_STANDING.to_json(), 17])


def test_a_source_that_reads_other_topics_besides_is_refused() -> None:
    with pytest.raises(UnfollowedTopicError, match="reads offers, returns besides"):
        position_of("orders", [{"orders": {"0": 1}, "returns": {}, "offers": {}}])


def test_a_source_that_reads_a_part_of_a_topic_is_refused() -> None:
    """A mark that names another partition would never be covered, without a word."""
    with pytest.raises(UnfollowedTopicError, match=r"partitions 1, 3 alone; .* subscribe"):
        position_of("orders", [{"orders": {"0": 1}}, {"orders": {"3": 1, "1": 0}}])


def test_a_log_is_of_who_stands_at_its_newest_entry() -> None:
    ends: list[Any] = [{"orders": {"0": 1}}, _STANDING.to_json()]
    check_log("/q", ends, _STANDING)
    check_log("/q", [], _FRESH)


@pytest.mark.parametrize(
    ("ends", "start", "problem"),
    [
        ([{"orders": {"0": 1}}], _FRESH, "this query had none yet"),
        ([], _STANDING, "has no batch"),
        (
            [TickOffset("s", "orders", bound=5_000, revision=3, run="b").to_json()],
            _STANDING,
            "newest batch",
        ),
    ],
)
def test_a_log_of_anybody_else_is_refused_with_the_cure(
    ends: list[Any], start: TickOffset, problem: str
) -> None:
    with pytest.raises(
        WrongCheckpointError, match=f"/q is another query's.*{problem}.*Location"
    ):
        check_log("/q", ends, start)


@pytest.mark.parametrize(
    ("start", "passed", "is_due", "bound"),
    [
        (_STANDING, _mark(6_000), False, 6_000),  # rose by a second
        (_STANDING, _mark(5_500), False, None),
        (_STANDING, _mark(5_500), True, 5_500),
        (_STANDING, _mark(5_000), True, None),
        (_STANDING, _mark(4_000), True, None),  # Kafka lost what it had
        (_STANDING, None, True, None),
        (_STANDING, _mark(END_OF_TIME), False, END_OF_TIME),
    ],
)
def test_time_makes_a_batch_if_it_rose_by_a_second_or_at_all_where_that_is_due(
    start: TickOffset, passed: Mark | None, *, is_due: bool, bound: int | None
) -> None:
    end = next_offset(start, passed, run="a", is_due=is_due)
    expected = (
        start if bound is None else TickOffset("s", "orders", bound=bound, revision=9, run="a")
    )
    assert end == expected


def test_the_first_batch_of_each_start_has_a_tick_also_without_news() -> None:
    end = next_offset(_STANDING, None, run="b", is_due=False)
    assert end == TickOffset("s", "orders", bound=5_000, revision=3, run="b")
    assert TickOffset.from_json(end.to_json()) == end


def test_a_topic_with_another_id_is_refused_where_both_are_known() -> None:
    known, unknown = TickOffset("s", "orders", topic_id="a"), TickOffset("s", "orders")
    assert TickOffset.from_json(known.to_json()) == known
    assert "topic_id" not in unknown.to_json()  # as it was stored before there were ids
    check_topic(known, "a")
    check_topic(known, None)
    check_topic(unknown, "b")
    with pytest.raises(LogReplacedError, match=r"its id is b now, not a"):
        check_topic(known, "b")
