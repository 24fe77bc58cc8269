"""A bucket on an executor: its state, its timer, and the operator that runs over it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from spark_source.collector import without_collector
from spark_source.columns import LAST_WATERMARK
from spark_source.operators.packing import Combine, freeze_imports, from_cell, to_cell
from spark_source.operators.placement import number_in_words, saved_number
from spark_source.processing import StateMismatchError, blobs
from tidegauge.event_time import END_OF_TIME


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedStep:
    """What a step of an operator over a bucket came to.

    Attributes
    ----------
    state
        The bucket's state from now on; None if there is none.
    next_bound
        The least bound at which a step without rows does something; None if there is none.
    out
        Rows of all outputs, in `HostedOperator.output`.
    counts
        By the names in `HostedOperator.counted` and `HostedOperator.held`.
    """

    state: bytes | None
    next_bound: int | None
    out: pa.Table
    counts: Mapping[str, int]


class BucketOperator(Protocol):
    """Runs over one bucket at a time, and holds nothing between steps."""

    def step(self, state: bytes | None, bound: int | None, rows: pa.Table) -> HostedStep:
        """Raise the bound, and take rows.

        Parameters
        ----------
        state
            What the bucket's step before returned; None before the first.
        bound
            In ms; None before the first mark, `END_OF_TIME` at the end.
        rows
            As they were packed; without columns if there are none.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class HostedOperator:
    """What hosting needs to know of an operator; it travels to the executors.

    Attributes
    ----------
    name
        Of the kind of operator, for the name of its observed metrics.
    open
        Makes the operator, in each task.
    columns
        What it reads besides key, event time, segment and offset.
    output
        The columns of all its outputs; a string column ``output`` names each row's.
    counted
        What it counts in a step.
    held
        What it counts after a step, of what it holds then.
    combine
        Makes fewer rows of some before they are shuffled; None leaves rows as they are.
    """

    name: str
    open: Callable[[], BucketOperator]
    columns: Sequence[str]
    output: StructType
    counted: Sequence[str] = ()
    held: Sequence[str] = ()
    combine: Combine | None = None


class BucketHost(StatefulProcessor):
    """Keeps the blob and the one timer of each bucket.

    Parameters
    ----------
    operator
        Run over the buckets.
    buckets
        How many there are; None for the default.
    ahead
        By how many ms the bound is above Spark's watermark.
    """

    def __init__(self, operator: HostedOperator, *, buckets: int | None, ahead: int) -> None:
        self._described = operator
        self._buckets = buckets
        self._ahead = ahead

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the operator, on an executor."""
        self._handle = handle
        self._kept = handle.getValueState("bucket", self._kept_columns())
        self._row_of = Row("out", *self._described.counted, *self._described.held)
        self._operator = self._described.open()
        freeze_imports()

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,  # noqa: ANN401, ARG002 (as Spark has it)
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Take the cells of a bucket."""
        # At once and not in a generator: Spark has another bucket at hand when it reads that.
        cells = [row["rows"] for row in rows]
        tables = [from_cell(cell) for cell in cells if cell is not None]
        rows_of_all = pa.concat_tables(tables) if tables else pa.table({})
        return iter([self._run(timerValues.getCurrentWatermarkInMs(), rows_of_all)])

    def handleExpiredTimer(  # noqa: N802 (Spark's name)
        self,
        key: Any,  # noqa: ANN401, ARG002 (as Spark has it)
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        """Let a bucket without rows do what is due."""
        watermark = timerValues.getCurrentWatermarkInMs()
        return iter([self._run(watermark, pa.table({}), fires=True)])

    def close(self) -> None:
        """Nothing is open."""

    def _run(self, watermark: int, rows: pa.Table, *, fires: bool = False) -> Row:
        kept = self._kept.get()
        number = saved_number(self._buckets)
        nothing = [0] * len(self._described.held)
        state, timer, saved, *held = kept or (None, None, number, *nothing)
        if saved != number:
            words = number_in_words(saved), number_in_words(number)
            raise StateMismatchError("buckets", *words)
        if state is not None:
            # Also where nothing is due: another bucket may have taken rows of keys that are here.
            blobs.check_format(state)
        if not rows.num_rows and (timer is None or timer > watermark):
            if kept is None:
                # So that another number of buckets is found even if none of those holds anything.
                self._kept.update((None, None, number, *held))
            return self._row_of(None, *[0] * len(self._described.counted), *held)
        with without_collector():
            step = self._operator.step(state, self._bound(watermark), rows)
        held = [step.counts[name] for name in self._described.held]
        due = self._due(step.next_bound, watermark)
        self._move_timer(None if fires else timer, due)
        self._kept.update((step.state, due, number, *held))
        counted = [step.counts[name] for name in self._described.counted]
        return self._row_of(to_cell(step.out) if step.out.num_rows else None, *counted, *held)

    def _kept_columns(self) -> StructType:
        return StructType(
            [
                StructField("state", BinaryType()),
                StructField("timer", LongType()),
                StructField("buckets", IntegerType()),
                *(StructField(name, LongType()) for name in self._described.held),
            ]
        )

    def _bound(self, watermark: int) -> int | None:
        """Return which bound Spark's watermark means; it is 0 before the first mark."""
        if watermark <= 0:
            return None
        return END_OF_TIME if watermark >= LAST_WATERMARK else watermark + self._ahead

    def _due(self, next_bound: int | None, watermark: int) -> int | None:
        """Choose the watermark at which the bucket is next due.

        Spark fires timers at the watermark or below it also in the batch that sets them, and
        rows may have times below any that its watermark takes; what they wait for is the next.
        """
        if next_bound is None:
            return None
        return max(min(next_bound - self._ahead, LAST_WATERMARK), watermark + 1)

    def _move_timer(self, timer: int | None, due: int | None) -> None:
        if timer == due:
            return
        if timer is not None:
            self._handle.deleteTimer(timer)
        if due is not None:
            self._handle.registerTimer(due)
