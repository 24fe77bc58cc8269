"""How late the rows of a chunk are: below the bound of a batch, or below the mark in force."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from reader_client import Events
from spark_source.errors import EventTimeOutOfRangeError
from spark_source.logs.embedded import run_of
from spark_source.options.load import Options
from spark_source.source.partitions import SegmentPartition, TickPartition
from spark_source.source.rows import rows_of, tick_row
from tidegauge.event_time import END_OF_TIME
from tidegauge.wire.columns import STORED_SCHEMA

_OPTIONS = Options(url="http://127.0.0.1:8470", stream="demo/rides", out_of_range_as_null=True)


def _lateness(
    times: list[int | None],
    late_below: int | None = None,
    marks: tuple[list[int], list[int]] = ([], []),
) -> list[tuple[bool, int | None]]:
    """Judge events from offset 10 on."""
    rows = _rows(times, _OPTIONS, late_below=late_below, marks=marks)
    flags = zip(rows.column("late"), rows.column("late_by"), strict=True)
    return [(late.as_py(), late_by.as_py()) for late, late_by in flags]


def _rows(times: Sequence[int | None], options: Options, **judged: Any) -> pa.RecordBatch:
    """Make rows of events from offset 10 on."""
    stored = [
        {"key": "k", "event_time": time, "value": b"v", "append_time": None, "writer": None}
        for time in times
    ]
    events = Events(0, 10, pa.RecordBatch.from_pylist(stored, STORED_SCHEMA))
    partition = SegmentPartition(options, "id", 0, 10, 10 + len(times), **judged)
    return rows_of(run_of(events), partition)


def test_a_row_below_the_bound_is_late_by_the_difference() -> None:
    found = _lateness([4_000, 10_000, None, 9_999], late_below=10_000)
    assert found == [(True, 6_000), (False, None), (False, None), (True, 1)]


def test_before_the_first_mark_no_row_is_late() -> None:
    assert _lateness([4_000, None]) == [(False, None), (False, None)]


@pytest.mark.parametrize(
    ("late_below", "time"), [(END_OF_TIME, 5_000), (5_000, -(2**63)), (END_OF_TIME, -5_000)]
)
def test_what_has_no_measure_is_late_by_the_greatest_number(late_below: int, time: int) -> None:
    assert _lateness([time], late_below=late_below) == [(True, END_OF_TIME)]


def test_a_batch_read_measures_by_the_mark_in_force_at_each_row() -> None:
    marks = ([0, 11, 13], [1_000, 2_000, 3_000])
    found = _lateness([500, 1_500, 2_000, 1_000, 3_000], marks=marks)
    assert found == [(True, 500), (True, 500), (False, None), (True, 2_000), (False, None)]
    assert _lateness([500, 1_500], marks=([0], [1_000])) == [(True, 500), (False, None)]
    assert _lateness([500, 1_500], marks=([11], [2_000])) == [(False, None), (True, 500)]


def test_a_tick_carries_the_bounds_of_its_batch_and_is_not_late() -> None:
    (tick,) = tick_row(TickPartition(_OPTIONS, 3_000, 1_000)).to_pylist()
    told = {name: value for name, value in tick.items() if value is not None}
    assert {
        name: getattr(value, "timestamp", lambda v=value: v)() for name, value in told.items()
    } == {
        "watermark": 3.0,
        "late": False,
        "tick": True,
        "late_below": 1.0,
    }


def test_times_that_no_timestamp_of_spark_holds_fail_with_their_place_or_are_null() -> None:
    years_1_to_9999 = [-62_135_596_800_000, 253_402_300_799_999]
    times = [years_1_to_9999[0] - 1, *years_1_to_9999, years_1_to_9999[1] + 1]
    as_null = _rows(times, _OPTIONS).column("event_time").cast(pa.int64()).to_pylist()
    assert as_null == [None, *(time * 1_000 for time in years_1_to_9999), None]
    with pytest.raises(EventTimeOutOfRangeError, match="at offset 10 of segment 0 is outside"):
        _rows(times, replace(_OPTIONS, out_of_range_as_null=False))
