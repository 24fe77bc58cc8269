"""What differs between the versions of Spark that this package runs on; no other module knows.

Each difference names the oldest version that is without it: once that is the oldest which runs
here, the difference can go.
"""

import ast
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.version import __version__

from spark_source.errors import InvalidOptionError, check_spark

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)
_VERSION = check_spark(__version__)

KAFKA_CONNECTOR = "4.1.3" if _VERSION < (4, 2) else "4.2.0"
"""The newest of Spark's own Kafka connectors that this Spark runs with and that Maven has."""

_GIVES_STARTS = _VERSION >= (4, 2)
_WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
_REPORT = "report"
_REPORTED = "stream", "reader_group", "lag_ms", "backlog_rows"

if TYPE_CHECKING or _VERSION >= (4, 2):
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:  # 4.2 has them

    class ReadLimit:
        """How much Spark lets a batch read."""

    class SupportsTriggerAvailableNow:
        """Marks a reader that Spark prepares for ``availableNow``."""


__all__ = [
    "KAFKA_CONNECTOR",
    "ReadLimit",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "for_this_spark",
    "is_stateful",
    "read_offset",
    "report_of",
    "warn_of_available_now",
]


def arrow_schema(schema: "StructType") -> "pa.Schema":
    """Return the schema in which Spark exchanges rows with Python; 4.2 wants to know the zone."""
    if _VERSION >= (4, 2):
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def for_this_spark(reader: DataSourceStreamReader) -> DataSourceStreamReader:
    """Return a reader as this Spark asks it: 4.2 says where a batch starts."""
    return reader if _GIVES_STARTS else _WithoutStarts(reader)


def is_stateful(plan: Any) -> bool:  # noqa: ANN401 (a plan of the JVM)
    """Return whether a plan shows that it keeps state; 4.3 can be asked."""
    return _VERSION >= (4, 3) and bool(plan.containsStatefulOperator())


def read_offset(text: str) -> Any:  # noqa: ANN401 (JSON)
    """Read an offset in the progress of a batch; 4.2 writes JSON, where Python's own words were.

    Raises
    ------
    ValueError
        If it is another text, of another source say.
    """
    try:
        return json.loads(text)
    except ValueError:
        if _VERSION >= (4, 2):
            raise
    try:
        return ast.literal_eval(text)
    except SyntaxError as error:
        raise ValueError(*error.args) from None


def report_of(latest_offset: dict[str, Any]) -> dict[str, Any]:
    """Find what ``reportLatestOffset`` said in the progress of a batch; 4.2 asks for it."""
    report: dict[str, Any] = latest_offset.get(_REPORT, latest_offset)
    return report


@cache
def warn_of_available_now() -> None:
    """Warn once of a trigger that ends too early; 4.2 asks a Python source whether it has more."""
    if not _GIVES_STARTS:
        _log.warning(
            "trigger(availableNow=True) ends after one batch on Spark %s, and applies its bound in "
            "the next run: to drain a stream, leave the trigger out, then call "
            "query.processAllAvailable() and query.stop()",
            __version__,
        )


class _WithoutStarts(DataSourceStreamReader):
    """Remembers for a reader where the next batch starts, and what it reports; see above.

    That is where the newest batch ends. Spark passes a query that it starts again, in
    ``partitions``, which batch that was: from its end to its end.
    """

    def __init__(self, reader: Any) -> None:  # noqa: ANN401 (a reader of 4.2)
        self._reader = reader
        self._initial: dict[str, Any] | None = None
        self._first: dict[str, Any] | None = None
        self._end: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """Find where a query without a checkpoint starts, once: Spark asks after the first end."""
        if self._initial is None:
            self._initial = self._reader.initialOffset()
        return self._initial

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 (Spark's)
        """Plan the end of the next batch, with the report of it."""
        if self._end is not None:
            self._end = self._next(self._end)
            return self._end
        self._end = self._first = self._next(self.initialOffset())
        return self._end

    def _next(self, start: dict[str, Any]) -> dict[str, Any]:
        known = _without_report(start)
        planned: dict[str, Any] = self._reader.latestOffset(known, None)
        if planned == known:
            return start
        report = self._reader.reportLatestOffset() or {}
        return planned | {_REPORT: {name: report.get(name) for name in _REPORTED}}

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        """Divide a planned batch, which the next one starts behind."""
        if end == self._first and start != self._initial:
            cure = "hides from a query before Spark 4.2 where it is; set it to false"
            raise InvalidOptionError(_WRAPPER, cure)
        self._end = end
        if start == end:
            return []
        partitions: Sequence[InputPartition] = self._reader.partitions(
            _without_report(start), _without_report(end)
        )
        return partitions

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read a partition, on an executor."""
        rows: Iterator[Any] = self._reader.read(partition)
        return rows

    def commit(self, end: dict[str, Any]) -> None:
        """Report that a batch is done."""
        self._reader.commit(_without_report(end))

    def stop(self) -> None:
        """Stop following."""
        self._reader.stop()


def _without_report(offset: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in offset.items() if name != _REPORT}
