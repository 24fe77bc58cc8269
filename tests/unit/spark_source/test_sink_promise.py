"""What a query may note behind a batch, from its checkpoint alone."""

import json
from pathlib import Path

import pytest

from spark_source.checkpoints.checkpoint import Checkpoint, Promise
from spark_source.checkpoints.ticks import TickOffset
from spark_source.errors import CheckpointError, GuessedWatermarkError
from tidegauge.event_time import END_OF_TIME

_LAST_MS = 253_402_300_799_998
"""Spark's watermark at the end of time, with ``operators="any"``."""


def _end(bound: int | None) -> str:
    return json.dumps({"stream_id": "s", "position": {"0": 3}, "bound": bound, "revision": 1})


def _tick(topic: str, bound: int) -> str:
    return json.dumps(TickOffset("s", topic, bound=bound, revision=1, run="a").to_json())


def _promise(
    folder: Path, watermark: int, *ends: str, stateful: bool, delay_ms: int = 0
) -> Promise:
    (folder / "offsets").mkdir()
    if stateful:
        (folder / "state").mkdir()
    lines = ["v1", json.dumps({"batchWatermarkMs": watermark}), *ends]
    (folder / "offsets" / "7").write_text("\n".join(lines))
    return Checkpoint(f"file:{folder}").batch(7).promise(delay_ms)


@pytest.mark.parametrize(
    ("watermark", "ends", "delay_ms", "promised"),
    [
        (5_000, [_end(END_OF_TIME)], 0, Promise(5_000, is_end=False)),
        (5_000, [_end(END_OF_TIME)], 600, Promise(4_400, is_end=False)),
        (0, [_end(END_OF_TIME)], 600, Promise(None, is_end=False)),  # Spark has none yet
        (_LAST_MS, [_end(END_OF_TIME)], 600, Promise(None, is_end=True)),
        (5_000, [_end(5_000), _end(9_000)], 0, Promise(5_000, is_end=False)),
        (5_000, [_tick("t", 7_000), '{"t":{"0":17}}'], 0, Promise(5_000, is_end=False)),
        (1, [_end(-9_000)], 0, Promise(1, is_end=False)),  # Spark's has no lower time
        (5_000, [_end(9_000), "-"], 0, Promise(None, is_end=False)),  # was not asked yet
        (0, ["17"], 0, Promise(None, is_end=False)),
    ],
)
def test_a_query_with_state_promises_a_watermark_that_all_sources_reached_less_its_delay(
    tmp_path: Path, watermark: int, ends: list[str], delay_ms: int, promised: Promise
) -> None:
    found = _promise(tmp_path, watermark, *ends, stateful=True, delay_ms=delay_ms)
    assert found == promised


@pytest.mark.parametrize(
    ("watermark", "ends", "problem"),
    [
        (5_000, ["17"], "reads a source that is neither"),
        (5_000, [_end(9_000), '{"t":{"0":17}}'], "reads a source that is neither"),
        (
            5_000,
            [_end(9_000), _tick("other", 7_000), '{"t":{"0":17}}'],
            "source that is neither",
        ),
        (
            5_000,
            [_end(9_000), _end(4_999)],
            "it is at 5000, and its sources have all reached 4999",
        ),
        (5_000, [_end(9_000), _end(None)], "its sources have all reached no time yet"),
        (_LAST_MS, [_end(END_OF_TIME), _end(7_000)], "its sources have all reached 7000"),
    ],
)
def test_a_guess_is_no_promise(
    tmp_path: Path, watermark: int, ends: list[str], problem: str
) -> None:
    with pytest.raises(GuessedWatermarkError, match=problem):
        _promise(tmp_path, watermark, *ends, stateful=True)


@pytest.mark.parametrize(
    ("ends", "promised"),
    [
        ([_end(9_000), _end(7_000)], Promise(7_000, is_end=False)),
        ([_end(9_000), _end(None)], Promise(None, is_end=False)),
        ([_end(9_000), "-"], Promise(None, is_end=False)),  # was not asked yet
        ([_end(9_000), '{"topic":{"0":17}}'], Promise(None, is_end=False)),  # has no bound
        ([_end(9_000), "17"], Promise(None, is_end=False)),
        ([_tick("t", 7_000), '{"t":{"0":17}}'], Promise(7_000, is_end=False)),
        ([_tick("t", END_OF_TIME), '{"t":{"0":17}}'], Promise(None, is_end=True)),
        ([_tick("other", 7_000), '{"t":{"0":17}}'], Promise(None, is_end=False)),
        ([_end(END_OF_TIME), _end(7_000)], Promise(7_000, is_end=False)),
        ([_end(END_OF_TIME), _end(END_OF_TIME)], Promise(None, is_end=True)),
    ],
)
def test_a_query_without_state_promises_the_least_bound_that_it_has_read_up_to(
    tmp_path: Path, ends: list[str], promised: Promise
) -> None:
    assert _promise(tmp_path, 0, *ends, stateful=False) == promised


def test_a_checkpoint_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=f"{tmp_path} cannot be read: .*metadata"):
        Checkpoint(str(tmp_path)).query_id()
    with pytest.raises(CheckpointError, match="s9://bucket/q cannot be read"):
        Checkpoint("s9://bucket/q")
