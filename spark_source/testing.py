"""Tests of processors in memory: literal events and bounds, without Spark."""

import re
from collections.abc import Sequence
from copy import deepcopy
from datetime import UTC, datetime

from spark_source.errors import OutputError
from spark_source.processing.keys import Key, Row
from spark_source.processing.process import AtEnd, ProcessOperator, ProcessStep
from spark_source.processing.processor import EventTimeProcessor
from tidegauge.event_time import END_OF_TIME, to_event_time

__all__ = ["ProcessorHarness"]

_QUOTED = re.compile(r"""`[^`]*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_BRACKETED = re.compile(r"<[^<>]*>|\([^()]*\)")


class ProcessorHarness:
    """Runs a processor as a query does, step by step.

    Every step begins with a copy of the processor and with its saved state, as after a restart:
    what a processor keeps outside its states is lost, and a test sees it. A row that has not a
    value for each column is refused as by Spark, which checks the values' types besides.

    Parameters
    ----------
    processor
        To be tested.
    columns
        Of the events, in the order in which `send` takes them.
    at_end
        Whether timers fire at the end of time (``drain``) or stay pending (``suspend``).

    Examples
    --------
    >>> harness = ProcessorHarness(OfflineDevices())
    >>> harness.send("d1", datetime(2024, 1, 1, 12, tzinfo=UTC), b"21.5")
    >>> step = harness.advance()  # brings it; a later step releases it
    >>> harness.advance(datetime(2024, 1, 1, 13, tzinfo=UTC)).out
    [('d1', datetime.datetime(2024, 1, 1, 12, 30, tzinfo=datetime.timezone.utc), 'offline')]
    """

    def __init__(
        self,
        processor: EventTimeProcessor,
        *,
        columns: Sequence[str] = ("value",),
        at_end: AtEnd = "drain",
    ) -> None:
        self._processor = processor
        self._columns = columns
        self._at_end = at_end
        self._rows: list[Row] = []
        self._offset = 0
        self._bound: int | None = None
        self._state: bytes | None = None
        # So that a wrong setting is refused here, not in the first step.
        self._new_operator()

    def send(self, key: Key, time: int | datetime, *values: object, segment: int = 0) -> None:
        """Add an event to the next step.

        Parameters
        ----------
        key
            Of the event.
        time
            Event time, in ms or as an aware datetime, whose microseconds order events as in Spark.
        values
            Of the columns. Aware datetimes reach the processor in UTC, as those of Spark do.
        segment
            Where it is; its offset is the number of events sent before.
        """
        if len(values) != len(self._columns):
            msg = f"{values!r} are not the values of the columns {list(self._columns)!r}"
            raise ValueError(msg)
        time_us = to_event_time(time) * 1_000
        if isinstance(time, datetime):
            time_us += time.microsecond % 1_000
        in_utc = [
            value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value
            for value in values
        ]
        self._rows.append((key, time_us, segment, self._offset, *in_utc))
        self._offset += 1

    def advance(self, bound: int | datetime | None = None) -> ProcessStep:
        """Run a step: raise the bound, then process the events that were sent.

        So an event is released by a later step than the one that brings it, and it is late if it
        is below the bound of that one.

        Parameters
        ----------
        bound
            In ms or as an aware datetime; without one it stays where it is.

        Raises
        ------
        ValueError
            If the bound falls.
        OutputError
            If the processor emits a row that its output has not the columns for.
        """
        reached = self._bound if bound is None else to_event_time(bound)
        if self._bound is not None and reached is not None and reached < self._bound:
            msg = f"the bound is {self._bound} and never falls, not to {reached} either"
            raise ValueError(msg)
        rows, self._rows = self._rows, []
        step = self._new_operator().step(self._state, reached, rows)
        step.late = [(key, time_us // 1_000, *rest) for key, time_us, *rest in step.late]
        self._check("main", self._processor.output, step.out)
        for name, columns in self._processor.side_outputs.items():
            self._check(name, columns, step.side[name])
        self._state, self._bound = step.state, reached
        return step

    def end(self) -> ProcessStep:
        """Run the last step, at the end of time; events sent since the step before are late."""
        return self.advance(END_OF_TIME)

    @staticmethod
    def _check(output: str, columns: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Raise `OutputError` where Spark would; it alone can read a type, but commas are counted."""
        if rows and not columns:
            raise OutputError(output, "the processor emits to it and declares no columns of it")
        count = _count_columns(columns)
        for row in rows:
            if len(row) != count:
                problem = f"{row!r} was emitted, and its columns are {columns}"
                raise OutputError(output, problem)

    def _new_operator(self) -> ProcessOperator:
        processor = deepcopy(self._processor)
        return ProcessOperator(processor, columns=self._columns, at_end=self._at_end)


def _count_columns(schema: str) -> int:
    """Count the columns of a schema as Spark writes one: the commas outside quotes and brackets."""
    bare, nested = _QUOTED.sub("", schema), 1
    while nested:
        bare, nested = _BRACKETED.subn("", bare)
    return bare.count(",") + 1
