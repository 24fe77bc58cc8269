"""Windows row by row: sessions, and aggregates of the user's own."""

from collections.abc import Sequence
from itertools import repeat

import numpy as np
import pyarrow as pa

from spark_source.hosting.bucket import HostedStep
from spark_source.hosting.packing import KEY
from spark_source.hosting.window_errors import AggregateTypeError
from spark_source.hosting.window_rows import WindowSchemas, refuse_missing_times
from spark_source.processing import Firing, WindowOperator, WindowSettings
from spark_source.processing.keys import Row


class RowWindows:
    """Hands the rows of a bucket to `WindowOperator`.

    Parameters
    ----------
    settings
        Of the operator.
    schemas
        Of rows and of the output.
    """

    def __init__(self, settings: WindowSettings, schemas: WindowSchemas) -> None:
        self._operator = WindowOperator(settings)
        self._schemas = schemas

    def combine(self, rows: pa.Table) -> pa.Table:
        """Refuse rows without event time; the others stay as they are."""
        refuse_missing_times(rows)
        return rows

    def step(self, state: bytes | None, bound: int | None, rows: pa.Table) -> HostedStep:
        """Raise the bound, and take rows."""
        columns = [column.to_pylist() for column in rows.columns]
        step = self._operator.step(state, bound, zip(*columns, strict=True))
        return HostedStep(
            state=step.state,
            next_bound=step.next_bound,
            out=pa.concat_tables([self._firings(step.out), self._late(step.late, bound)]),
            counts={
                "late": len(step.late),
                "partially_late": step.partially_late,
                "windows": step.windows,
            },
        )

    def _firings(self, out: Sequence[Firing]) -> pa.Table:
        fields = list(self._schemas.values)
        results = zip(*(one.values for one in out), strict=True) if out else repeat(())
        values = [_array(each, one) for each, one in zip(results, fields, strict=False)]
        return self._schemas.firings(
            key=pa.array([one.key for one in out], self._schemas.rows.field(KEY).type),
            start_ms=np.array([one.start_ms for one in out], np.int64),
            end_ms=np.array([one.end_ms for one in out], np.int64),
            values=pa.StructArray.from_arrays(values, fields=fields),
            kind=pa.array([one.kind for one in out], pa.string()),
            pane=pa.array([one.pane for one in out], pa.string()),
            pane_index=pa.array([one.pane_index for one in out], pa.int64()),
        )

    def _late(self, late: Sequence[Row], bound: int | None) -> pa.Table:
        columns = zip(*(row[:-1] for row in late), strict=True) if late else repeat(())
        arrays = [
            pa.array(values, one.type)
            for values, one in zip(columns, self._schemas.rows, strict=False)
        ]
        rows = pa.table(arrays, schema=self._schemas.rows)
        return self._schemas.late(self._schemas.row(rows), bound)


def _array(results: Sequence[object], one: pa.Field) -> pa.Array:
    if pa.types.is_floating(one.type):
        # Arrow takes no decimals for floats.
        results = [None if result is None else float(result) for result in results]  # type: ignore[arg-type]
    try:
        return pa.array(results, one.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise AggregateTypeError(one.name, str(one.type)) from error
