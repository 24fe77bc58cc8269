"""What aggregates say of columns of Arrow, and what is refused."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from math import isnan, nan
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_source.operators.aggregates import BUILT_INS, ArrowAggregates
from spark_source.operators.packing import KEY, OFFSET, SEGMENT, TIME
from spark_source.operators.window_errors import AggregateTypeError, BoundAheadError
from spark_source.operators.window_rows import LATE_BELOW
from spark_source.operators.windows import WindowOperator
from spark_source.processing import (
    LocalDayWindows,
    SessionWindows,
    SlidingWindows,
    StateMismatchError,
    WindowSettings,
    aggregates,
    assigners,
)
from spark_source.processing.aggregates import Aggregate, BuiltIn, count
from spark_source.processing.assigners import Assigner
from tests.conformance.arrow_windows import ArrowOperator, schemas_of
from tidegauge.event_time import END_OF_TIME

HOUR_MS = 3_600_000
TUMBLING = SlidingWindows(10, 10)
SESSION = SessionWindows(10)
NOON, SECOND = datetime(2024, 1, 1, 12, tzinfo=UTC), timedelta(seconds=1)
NOON_US = 1_704_110_400_000_000


def result_of(
    aggregate: Aggregate | BuiltIn,
    value_type: pa.DataType,
    values: list[Any],
    *,
    of: pa.DataType | None = None,
    assigner: Assigner = TUMBLING,
) -> Any:
    """Aggregate values, of which the last comes in a step of its own."""
    schemas = schemas_of(value_type, {"it": of or value_type})
    settings = WindowSettings(assigner=assigner, aggregates={"it": aggregate})
    operator = ArrowOperator(settings, schemas=schemas)
    rows = [("a", 1, 0, offset, value) for offset, value in enumerate(values)]
    state = operator.step(None, None, rows[:-1]).state
    state = operator.step(state, None, rows[-1:]).state
    [firing] = operator.step(state, 20, []).out
    return firing.values[0]


def test_nan_is_the_greatest_number_in_whichever_order_it_comes() -> None:
    for values in permutations([2.0, nan, -1.0, None]):
        assert result_of(aggregates.min("value"), pa.float64(), list(values)) == -1.0
        assert isnan(result_of(aggregates.max("value"), pa.float64(), list(values)))
    assert isnan(result_of(aggregates.min("value"), pa.float64(), [nan, None]))
    assert result_of(aggregates.max("value"), pa.float64(), [None, None]) is None


@pytest.mark.parametrize("assigner", [TUMBLING, SESSION])
@pytest.mark.parametrize(
    ("value_type", "values", "least", "greatest"),
    [
        (pa.string(), ["b", "ä", None, "a"], "a", "ä"),
        (pa.binary(), [b"b", b"a"], b"a", b"b"),
        (pa.bool_(), [True, False], False, True),
        (pa.int8(), [5, None, -3], -3, 5),
        (pa.float32(), [0.5, None, -0.5], -0.5, 0.5),
        (pa.date32(), [date(2024, 1, 2), date(2024, 1, 1)], date(2024, 1, 1), date(2024, 1, 2)),
        (pa.decimal128(5, 2), [Decimal("1.50"), None], Decimal("1.50"), Decimal("1.50")),
        # The operator of the tests shows times as numbers, here microseconds.
        (pa.timestamp("us", tz="UTC"), [NOON, NOON - SECOND], NOON_US - 1_000_000, NOON_US),
    ],
)
def test_the_least_and_the_greatest_are_of_the_type_of_their_column(
    assigner: Assigner, value_type: pa.DataType, values: Any, least: Any, greatest: Any
) -> None:
    assert result_of(aggregates.min("value"), value_type, values, assigner=assigner) == least
    assert result_of(aggregates.max("value"), value_type, values, assigner=assigner) == greatest


MONEY, CENTS = pa.decimal128(5, 2), [Decimal("0.10"), None, Decimal("0.20")]


@pytest.mark.parametrize("assigner", [TUMBLING, SESSION])
@pytest.mark.parametrize(
    ("aggregate", "value_type", "of", "values", "result"),
    [
        # They are exact beyond what a float can hold.
        (aggregates.sum, pa.int64(), pa.int64(), [2**62, 1, 2**62, -(2**62)], 2**62 + 1),
        (aggregates.mean, pa.int64(), pa.float64(), [2**63 - 1] * 3, float(2**63 - 1)),
        (aggregates.sum, pa.int8(), pa.int64(), [127] * 3, 381),
        # Of decimals sums are decimals, and means are doubles.
        (aggregates.sum, MONEY, pa.decimal128(15, 2), CENTS, Decimal("0.30")),
        (aggregates.mean, MONEY, pa.float64(), CENTS, 0.15),
    ],
)
def test_sums_and_means_are_exact_whatever_the_type_of_the_column(
    assigner: Assigner, aggregate: Any, value_type: Any, of: Any, values: Any, result: Any
) -> None:
    found = result_of(aggregate("value"), value_type, values, of=of, assigner=assigner)
    assert found == result


@pytest.mark.parametrize("assigner", [TUMBLING, SESSION])
def test_a_sum_that_does_not_fit_its_type_is_refused(assigner: Assigner) -> None:
    with pytest.raises(AggregateTypeError, match="'it' does not fit its type int64; cast"):
        result_of(aggregates.sum("value"), pa.int64(), [2**63 - 1, 1], assigner=assigner)


def test_a_built_in_aggregate_of_three_parts_is_one_entry_of_a_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def extremes(column: str, value_type: pa.DataType) -> Any:
        least, greatest, number = (
            BUILT_INS[kind].columns(column, value_type) for kind in ("min", "max", "count")
        )
        return replace(
            least,
            parts=[*least.parts, *greatest.parts, *number.parts],
            lift=lambda rows: [*least.lift(rows), *greatest.lift(rows), *number.lift(rows)],
            result=lambda parts, _: pc.add(pc.multiply(parts[1], 100), parts[2]),
        )

    monkeypatch.setitem(BUILT_INS, "extremes", BUILT_INS["min"]._replace(columns=extremes))
    both = {"it": BuiltIn("extremes", "value"), "n": count()}  # type: ignore[arg-type]
    kept = ArrowAggregates(both, pa.schema([("value", pa.int64())]))
    rows = pa.table({"value": [1, 7, 2]})
    merged = kept.merge(pa.table({"g": [0] * 3} | kept.lift(rows)), "g", {})
    said = kept.results(merged, pa.struct([("it", pa.int64()), ("n", pa.int64())]))
    assert said.to_pylist() == [{"it": 703, "n": 3}]


def test_rows_that_were_merged_and_are_late_after_all_are_refused() -> None:
    schemas = schemas_of(pa.int64(), {"n": pa.int64()})
    settings = WindowSettings(assigner=TUMBLING, aggregates={"n": count()})
    windows = WindowOperator(settings, schemas)
    columns = {KEY: ["a"], TIME: [5_000], SEGMENT: [0], OFFSET: [0], "value": [1]}
    promise = pa.array([9_000]).cast(pa.timestamp("us", tz="UTC"))
    rows = windows.combine(pa.table(columns | {LATE_BELOW: promise}))
    assert windows.step(None, 9, rows).counts["windows"] == 1
    with pytest.raises(BoundAheadError, match="multipleWatermarkPolicy to min"):
        windows.step(None, 10, rows)


def test_keys_may_be_times_whatever_the_zone_of_the_session() -> None:
    schemas = schemas_of(pa.int64(), {"n": pa.int64()}, key=pa.timestamp("us", tz="UTC"))
    windows = WindowOperator(
        WindowSettings(assigner=TUMBLING, aggregates={"n": count()}), schemas
    )
    state = None
    for zone in ("UTC", "Europe/Berlin"):
        keys = pa.array([0]).cast(pa.timestamp("us", tz=zone))
        rows = {KEY: keys, TIME: [5_000], SEGMENT: [0], OFFSET: [0], "value": [1]}
        step = windows.step(state, None, windows.combine(pa.table(rows)))
        state = step.state
    assert step.counts["windows"] == 1


def test_state_of_a_column_of_another_type_is_refused() -> None:
    settings = WindowSettings(assigner=TUMBLING, aggregates={"least": aggregates.min("value")})
    old = ArrowOperator(settings, schemas=schemas_of(pa.int32(), {"least": pa.int32()}))
    new = ArrowOperator(settings, schemas=schemas_of(pa.string(), {"least": pa.string()}))
    state = old.step(None, None, [("a", 1, 0, 0, 1)]).state
    with pytest.raises(StateMismatchError, match=r"columns = .*part0: int32"):
        new.step(state, None, [("a", 1, 0, 1, "x")])


def _operator(**changes: Any) -> ArrowOperator:
    given: dict[str, Any] = {"assigner": TUMBLING, "aggregates": {"n": count()}}
    settings = WindowSettings(**(given | changes))
    results = dict.fromkeys(settings.aggregates, pa.int64())
    return ArrowOperator(settings, schemas=schemas_of(pa.int64(), results))


DAYS = LocalDayWindows(1, "Europe/Paris")


def test_an_open_day_stays_as_it_is_when_the_database_of_zones_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begins, ends = 1_711_839_600_000, 1_711_922_400_000  # 2024-03-31 in Paris
    step = _operator(assigner=DAYS).step(None, None, [("a", begins, 0, 0, 1)])
    assert step.next_bound == ends
    # As if it had been decided that the clocks stay in winter: days begin an hour later.
    monkeypatch.setattr(assigners, "find_zone", lambda _: ZoneInfo("Etc/GMT-1"))
    rows = [
        ("a", ends - 1, 0, 1, 1),
        ("b", begins + 1, 0, 2, 1),
        ("a", ends + HOUR_MS, 0, 3, 1),
    ]
    operator = _operator(assigner=DAYS)
    step = operator.step(step.state, ends - 1, rows)
    assert (step.out, step.windows) == ([], 3)
    step = operator.step(step.state, ends, [])
    assert [(one.key, one.start_ms, one.end_ms, one.values) for one in step.out] == [
        ("a", begins, ends, (2,)),
        ("b", begins, ends, (1,)),
    ]
    [last] = operator.step(step.state, END_OF_TIME, []).out
    assert (last.start_ms, last.values) == (ends + HOUR_MS, (1,))


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"assigner": SESSION}, "assigner"),
        ({"assigner": DAYS}, "assigner"),
        ({"aggregates": {"n": count(), "sum": aggregates.sum("value")}}, "aggregates"),
        ({"accumulation": "discarding"}, "accumulation"),
        ({"buckets": 2}, "buckets"),
    ],
)
def test_state_of_other_windows_is_refused(changes: Any, setting: str) -> None:
    state = _operator().step(None, None, [("a", 1, 0, 0, 1)]).state
    with pytest.raises(StateMismatchError) as raised:
        _operator(**changes).step(state, None, [])
    assert raised.value.setting == setting


def test_lateness_and_trigger_may_change_at_a_restart() -> None:
    state = _operator().step(None, None, [("a", 1, 0, 0, 1)]).state
    changed = _operator(lateness_ms=5, trigger="early")
    step = changed.step(state, 10, [("a", 2, 0, 1, 1), ("a", 12, 0, 2, 1)])
    assert [(one.pane, one.values) for one in step.out] == [
        ("on_time", (1,)),
        ("late", (2,)),
        ("early", (1,)),
    ]
