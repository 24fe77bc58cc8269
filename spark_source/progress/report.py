"""What the latest batches of a query did, for a notebook or a terminal."""

from collections.abc import Sequence
from functools import cached_property
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

from spark_source.progress.batch import BatchProgress, Query, read_progress
from tidegauge.event_time import describe_event_time, describe_span

if TYPE_CHECKING:  # executors import this package, and need not wait a second for pandas
    import pandas as pd

_MIB = 2**20
_COLUMNS = (
    "batch",
    "time",
    "rows",
    "bound",
    "lag_ms",
    "late",
    "late_output",
    "partially_late",
    "backlog",
    "state_bytes",
)


class QueryReport:
    """The latest batches of a query: a table as text, in a notebook with a plot.

    The plot needs matplotlib, which the extra ``plot`` brings.
    """

    def __init__(self, name: str, batches: Sequence[BatchProgress]) -> None:
        self._name = name
        self._batches = batches

    @cached_property
    def table(self) -> "pd.DataFrame":
        """A row each batch.

        Columns ``batch``, ``time`` (text), ``rows``, ``bound`` and ``lag_ms`` in event time, ``late``
        (flagged by the source), ``late_output``, ``partially_late``, ``backlog`` in rows,
        ``state_bytes``. Of several streams the least bound, the greatest lag and the sum of the
        backlogs; null where one is not known.
        """
        import pandas as pd  # noqa: PLC0415 (see above)

        # Int64 holds times of 64 bits, and nulls.
        types = {name: "Int64" for name in _COLUMNS if name != "time"}
        rows = list(map(_row, self._batches))  # as objects: floats do not hold the end of time
        return pd.DataFrame(rows, columns=list(_COLUMNS), dtype=object).astype(types)

    def __str__(self) -> str:
        if not self._batches:
            return f"{self._name}: no batch is done yet"
        return f"{self._name}\n{_readable(self.table).to_string(index=False)}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show it in a notebook."""
        if not self._batches:
            return f"<p>{escape(str(self))}</p>"
        table = _readable(self.table).to_html(index=False, border=0)
        return f"<h4>{escape(self._name)}</h4>{_plot(self.table)}{table}"


def query_report(query: Query, *, batches: int = 20) -> QueryReport:
    """Report what the latest batches of a query did; works in notebooks and terminals.

    Parameters
    ----------
    query
        A streaming query, classic or over Spark Connect.
    batches
        Of so many at most. Spark keeps ``spark.sql.streaming.numRecentProgressUpdates``, 100.

    Examples
    --------
    >>> print(query_report(query))  # doctest: +SKIP
    """
    recent = list(query.recentProgress)[-batches:]
    return QueryReport(query.name or "query", [read_progress(one) for one in recent])


def _row(batch: BatchProgress) -> tuple[object, ...]:
    streams, lateness = batch.streams, batch.lateness
    return (
        batch.batch,
        batch.timestamp,
        batch.rows,
        _unless_unknown(min, [one.bound for one in streams]),
        _unless_unknown(max, [one.lag_ms for one in streams]),
        lateness.late,
        lateness.late_output,
        lateness.partially_late,
        _unless_unknown(sum, [one.backlog for one in streams]),
        batch.state_bytes,
    )


def _unless_unknown(combine: Any, numbers: list[int | None]) -> Any:  # noqa: ANN401 (min, max, sum)
    return None if not numbers or None in numbers else combine(numbers)


def _readable(table: "pd.DataFrame") -> "pd.DataFrame":
    """Write times and sizes for people."""
    shown = table.assign(
        bound=table["bound"].map(describe_event_time, na_action="ignore"),
        lag_ms=table["lag_ms"].map(describe_span, na_action="ignore"),
        state_bytes=table["state_bytes"].map(lambda size: f"{size / _MIB:.2f} MiB"),
    )
    names = {"lag_ms": "lag", "state_bytes": "state"}
    return shown.rename(columns=names).astype("string").fillna("")


def _plot(table: "pd.DataFrame") -> str:
    """Draw how lag, late rows and state went; nothing without matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError:
        return ""
    figure = Figure(figsize=(8, 2), layout="constrained")
    lag, late, state = figure.subplots(1, 3)
    batch = table["batch"].to_numpy(float)
    lag.plot(batch, table["lag_ms"].to_numpy(float, na_value=float("nan")) / 1_000)
    late.bar(batch, table["late"].to_numpy(float))
    state.plot(batch, table["state_bytes"].to_numpy(float) / _MIB)
    for axes, title in ((lag, "lag, s"), (late, "late rows"), (state, "state, MiB")):
        axes.set_title(title, fontsize="small")
        axes.set_xlabel("batch", fontsize="small")
        axes.set_ylim(bottom=0)
    drawn = StringIO()
    figure.savefig(drawn, format="svg")
    svg = drawn.getvalue()
    return svg[svg.index("<svg") :]  # HTML has no XML declaration
