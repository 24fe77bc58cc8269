"""What a query reports of a batch, out of the progress that Spark hands to listeners and notebooks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import Row
from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark_source.compatibility import read_offset, report_of


class Query(Protocol):
    """What a streaming query of Spark has, classic or over Connect."""

    @property
    def name(self) -> str | None:
        """Its name, if it has one."""

    @property
    def isActive(self) -> bool:  # noqa: N802 (Spark's)
        """Whether it runs."""

    @property
    def status(self) -> Mapping[str, Any]:
        """What it does."""

    @property
    def recentProgress(self) -> Sequence[StreamingQueryProgress]:  # noqa: N802 (Spark's)
        """Its latest batches, oldest first."""


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How far a query is in one stream after a batch.

    Attributes
    ----------
    stream
        ``scope/stream``.
    reader_group
        ``scope/group``; None if the query reads without one.
    bound
        No later batch has an on-time row below it, ms; None before the first mark.
    lag_ms
        Event time from the bound to the watermark; None if one of them is not there.
    backlog
        Rows that are still to be read.
    """

    stream: str
    reader_group: str | None
    bound: int | None
    lag_ms: int | None
    backlog: int | None


@dataclass(frozen=True, slots=True)
class Lateness:
    """Rows that were late, of a batch or of all since a query started.

    Attributes
    ----------
    late
        Rows that the source flagged.
    late_by_ms
        How far the latest of them was below the bound; None if none was.
    late_writers
        Rows by writer.
    late_output
        Rows that operators handed to their ``late`` output.
    partially_late
        Rows that only some of their windows took.
    """

    late: int = 0
    late_by_ms: int | None = None
    late_writers: Counter[str] = field(default_factory=Counter)
    late_output: int = 0
    partially_late: int = 0

    def __add__(self, other: "Lateness") -> "Lateness":
        latest = [one for one in (self.late_by_ms, other.late_by_ms) if one is not None]
        return Lateness(
            self.late + other.late,
            max(latest, default=None),
            self.late_writers + other.late_writers,
            self.late_output + other.late_output,
            self.partially_late + other.partially_late,
        )


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch of a query."""

    batch: int
    timestamp: str
    rows: int
    streams: list[StreamProgress]
    lateness: Lateness
    state_bytes: int


def read_progress(progress: StreamingQueryProgress) -> BatchProgress:
    """Find in the progress of a batch what is said of our sources and operators."""
    observed = list(map(_fields, progress.observedMetrics.values()))
    sources = [one for one in observed if one.keys() >= _OF_SOURCES]
    flagging = [one for one in sources if "late_writers" in one]
    operators = [one for one in observed if "late" in one and one.keys() & _HELD]
    return BatchProgress(
        batch=progress.batchId,
        timestamp=progress.timestamp,
        rows=sum(one["rows"] for one in sources),
        streams=list(_streams(progress)),
        lateness=sum(map(_flagged, flagging), sum(map(_refused, operators), Lateness())),
        state_bytes=sum(map(_state_bytes, progress.stateOperators)),
    )


_OF_SOURCES = {"rows", "bound"}
"""What every source of ours observes; those that flag rows observe more."""
_HELD = {"keys", "windows"}
"""What operators hold is observed under one of these names."""


def _fields(row: Row) -> dict[str, Any]:
    """Name the fields of what was observed; over Spark Connect names and values may lie apart."""
    fields: dict[str, Any] = row.asDict()
    if fields.keys() != {"values", "schema"}:
        return fields
    names = [one["name"] for one in fields["schema"]["fields"]]
    return dict(zip(names, fields["values"], strict=True))


def _flagged(observed: Mapping[str, Any]) -> Lateness:
    # The writer "" is that of rows of which the log does not know who wrote them.
    known = {name: rows for name, rows in observed["late_writers"].items() if name}
    return Lateness(observed["late"], observed["late_by"], Counter(known))


def _refused(observed: Mapping[str, Any]) -> Lateness:
    return Lateness(
        # Sums over no bucket are null.
        late_output=observed["late"] or 0,
        partially_late=observed.get("partially_late") or 0,
    )


def _streams(progress: StreamingQueryProgress) -> Iterator[StreamProgress]:
    for source in progress.sources:
        latest, end = report_of(_offset(source.latestOffset)), _offset(source.endOffset)
        if "reader_group" in latest:
            yield StreamProgress(
                stream=latest["stream"],
                reader_group=latest["reader_group"],
                bound=end.get("bound"),
                lag_ms=latest["lag_ms"],
                backlog=latest["backlog_rows"],
            )


def _offset(text: str) -> dict[str, Any]:
    """Read an offset of ours; those of other sources are any text, and before the first there is none."""
    try:
        offset = read_offset(text)
    except ValueError:
        return {}
    return offset if isinstance(offset, dict) else {}


def _state_bytes(operator: Any) -> int:  # noqa: ANN401 (StateOperatorProgress, which Spark does not export)
    """Add up what the state of an operator takes: in memory, and with RocksDB in its files."""
    files: int = operator.customMetrics.get("rocksdbSstFileSize", 0)
    memory: int = operator.memoryUsedBytes
    return memory + files
