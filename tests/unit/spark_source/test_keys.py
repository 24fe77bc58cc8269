"""Keys and timestamps are themselves, whatever the session's zone, the Python and the bits."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import nan
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.sql import Row

from spark_source.arrow_values import to_python
from spark_source.operators.aggregates import ArrowAggregates
from spark_source.operators.packing import KEY, OFFSET, SEGMENT, TIME, from_cell, pack
from spark_source.operators.processors import HostedProcessor
from spark_source.processing import (
    Context,
    EventTimeProcessor,
    OpenContext,
    ProcessOperator,
    SlidingWindows,
    WindowSettings,
    bucket_of,
)
from spark_source.processing.aggregates import count
from spark_source.processing.keys import canonical
from spark_source.testing import ProcessorHarness
from tests.conformance.arrow_windows import ArrowOperator, schemas_of
from tidegauge.event_time import END_OF_TIME

NEW_YORK = ZoneInfo("America/New_York")
FIRST, SECOND = 1_730_611_800_000_000, 1_730_615_400_000_000
"""05:30 and 06:30 in UTC: both are 01:30 in New York on the day on which clocks go back."""
TWICE = [datetime(2024, 11, 3, 1, 30, fold=fold, tzinfo=NEW_YORK) for fold in (0, 1)]
OTHER_NAN = -float("nan")


@pytest.mark.parametrize(
    ("key", "bucket"),
    [
        (None, 0),
        ("", 0),
        ("a", 3_904_355_907),
        ("ключ", 212_833_818),
        ("\U0001fae8", 3_297_998_990),  # new in Unicode 15, and so printable in Python 3.12
        (b"\x00\xff", 1_826_356_594),
        (7, 1_790_921_346),
        (-1, 808_273_962),
        (True, 2_212_294_583),
        (False, 4_108_050_209),
        (0.0, 1_696_784_233),
        (-0.0, 1_696_784_233),
        (1.5, 1_851_714_054),
        (nan, 1_203_972_331),
        (OTHER_NAN, 1_203_972_331),
        (Decimal("1.50"), 61_336_374),
        (Decimal("1.5"), 61_336_374),
        (TWICE[0], 2_443_273_010),
        (TWICE[1], 2_122_199_132),
        (datetime(2024, 11, 3, 5, 30, tzinfo=UTC), 2_443_273_010),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999), 808_273_962),  # noqa: DTZ001 (without a zone)
        (date(2024, 2, 29), 690_802_542),
        (time(1, 2, 3, 4), 4_220_811_205),
        (timedelta(days=1, microseconds=1), 1_026_759_400),
        (("a", (7, None)), 2_816_888_960),
        (Row(name="a", numbers=Row(first=7, second=None)), 2_816_888_960),
    ],
)
def test_the_bucket_of_a_key_is_a_literal_number(key: Any, bucket: int) -> None:
    assert bucket_of(key, 2**32) == bucket


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "ключ", None]),
        pa.array([7, -1]),
        pa.array([True, False]),
        pa.array([0.0, -0.0, nan, OTHER_NAN, 1.5]),
        pa.array([0.1, -0.0], pa.float32()),
        pa.array([Decimal("1.50")], pa.decimal128(38, 2)),
        pa.array([b"\x00\xff"]),
        pa.array([date(2024, 2, 29)]),
        pa.array([FIRST, SECOND, None], pa.timestamp("us", "America/New_York")),
        pa.array([FIRST, -1], pa.timestamp("us")),
        pa.array([1], pa.duration("us")),
    ],
)
def test_rows_are_packed_into_the_buckets_of_their_keys(column: pa.Array) -> None:
    rows = pa.record_batch({KEY: column})
    [packed] = pack(iter([rows]), buckets=32, combine=None)
    for bucket, cell in zip(*packed.to_pydict().values(), strict=True):
        assert {bucket_of(key, 32) for key in to_python(from_cell(cell)[KEY])} == {bucket}


class Count(EventTimeProcessor):
    """Counts the events of a key."""

    output = "key string, n bigint"

    def open(self, ctx: OpenContext) -> None:
        self.n = ctx.value("n")

    def on_event(self, key: Any, event: Any, ctx: Context) -> None:  # noqa: ARG002
        self.n.set(self.n.get(0) + 1)
        ctx.set_timer("end", 1_000)

    def on_timer(self, key: Any, name: str, ctx: Context) -> None:  # noqa: ARG002
        ctx.emit(key, self.n.get())


def counted(make: Callable[[], list[Any]]) -> list[tuple[Any, int]]:
    """Count keys that come in two steps, made anew in each."""
    operator, state = ProcessOperator(Count()), None
    for bound in (10, 11):
        rows = [(key, bound * 1_000, 0, offset, None) for offset, key in enumerate(make())]
        state = operator.step(state, bound, rows).state
    return [(key, n) for key, n in operator.step(state, END_OF_TIME, []).out]


@pytest.mark.parametrize(
    ("make", "keys"),
    [
        (lambda: list(TWICE), [datetime(2024, 11, 3, hour, 30, tzinfo=UTC) for hour in (5, 6)]),
        (lambda: [("a", one) for one in TWICE], [("a", canonical(one)) for one in TWICE]),
    ],
)
def test_two_hours_that_the_clock_shows_alike_are_two_keys(
    make: Callable[[], list[Any]], keys: list[Any]
) -> None:
    assert counted(make) == [(key, 2) for key in keys]


def test_zero_is_one_key_and_nan_another_behind_all_numbers() -> None:
    found = counted(lambda: [float("nan"), 0.0, 1.5, None, -0.0, OTHER_NAN])
    assert [n for _, n in found] == [2, 4, 2, 4]
    assert str([key for key, _ in found]) == "[None, 0.0, 1.5, nan]"
    [(key, n)] = counted(lambda: [("a", (float("nan"), -0.0))])
    assert (n, str(key)) == (2, "('a', (nan, 0.0))")


def test_windows_have_one_zero_and_one_nan_too() -> None:
    schemas = schemas_of(pa.int64(), {"n": pa.int64()}, key=pa.float64())
    settings = WindowSettings(assigner=SlidingWindows(10, 10), aggregates={"n": count()})
    operator, state = ArrowOperator(settings, schemas=schemas), None
    for keys in ([0.0, -0.0, None], [OTHER_NAN, float("nan"), -0.0]):
        rows = [(key, 1, 0, offset, None) for offset, key in enumerate(keys)]
        state = operator.step(state, None, rows).state
    out = operator.step(state, 10, []).out
    assert [(str(one.key), one.values) for one in out] == [
        ("None", (1,)),
        ("0.0", (3,)),
        ("nan", (2,)),
    ]


class Rides(EventTimeProcessor):
    """Measures rides."""

    output = "hour bigint, minutes bigint"

    def on_event(self, key: Any, event: Any, ctx: Context) -> None:  # noqa: ARG002
        ctx.emit(event.started.hour, (event.ended - event.started) // timedelta(minutes=1))


def test_columns_reach_a_processor_in_utc() -> None:
    """In the session's zone the ride would take 0 minutes."""
    main = pa.struct([("hour", pa.int64()), ("minutes", pa.int64())])
    schema = pa.schema([("output", pa.string()), ("main", main)])
    hosted = HostedProcessor(
        Rides(), columns=("started", "ended"), at_end="drain", schema=schema
    )
    places = {KEY: ["k"], TIME: [10_000], SEGMENT: [0], OFFSET: [0]}
    kind = pa.timestamp("us", "America/New_York")
    times = {"started": pa.array([FIRST], kind), "ended": pa.array([SECOND], kind)}
    first = hosted.step(None, None, pa.table(places | times))
    [row] = hosted.step(first.state, END_OF_TIME, pa.table({})).out.to_pylist()
    assert row["main"] == {"hour": 5, "minutes": 60}


def test_times_within_other_values_are_in_utc_and_those_without_a_zone_stay() -> None:
    zoned, bare = pa.timestamp("us", "America/New_York"), pa.timestamp("us")
    kind = pa.struct(
        [("times", pa.list_(zoned)), ("named", pa.map_(pa.string(), zoned)), ("bare", bare)]
    )
    [value] = to_python(
        pa.array([{"times": [FIRST], "named": [("a", SECOND)], "bare": FIRST}], kind)
    )
    [time], [(_, other)] = value["times"], value["named"]
    assert (time.isoformat(), other.isoformat(), value["bare"].isoformat()) == (
        "2024-11-03T05:30:00+00:00",
        "2024-11-03T06:30:00+00:00",
        "2024-11-03T05:30:00",
    )


def test_columns_are_in_utc_in_memory_too() -> None:
    harness = ProcessorHarness(Rides(), columns=["started", "ended"])
    harness.send("k", 10, *TWICE)
    harness.advance()
    assert harness.advance(11).out == [(5, 60)]


class Latest:
    """The latest of a column of timestamps, as a user writes it."""

    column, output = "t", "timestamp"

    def zero(self) -> None:
        return None

    def add(self, accumulator: Any, value: Any) -> Any:
        return self.merge(accumulator, value)

    def merge(self, left: Any, right: Any) -> Any:
        return max((one for one in (left, right) if one is not None), default=None)

    def result(self, accumulator: Any) -> Any:
        return accumulator


def test_an_aggregate_of_the_users_own_compares_times_in_utc() -> None:
    rows = pa.table({"t": pa.array([SECOND, FIRST], pa.timestamp("us", "America/New_York"))})
    aggregates = ArrowAggregates({"latest": Latest()}, rows.schema)
    merged = aggregates.merge(pa.table({"g": [0, 0]} | aggregates.lift(rows)), "g", {})
    said = aggregates.results(merged, pa.struct([("latest", pa.timestamp("us", "UTC"))]))
    assert said.field("latest").cast(pa.int64()).to_pylist() == [SECOND]
