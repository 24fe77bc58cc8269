"""What can go wrong with the Spark source and its sink."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidegauge.errors import TidegaugeError

OUT_OF_RANGE = (
    "event time {event_time} at offset {offset} of segment {segment} is outside what "
    "Spark can hold (the years 1 to 9999); correct the writer, or set outOfRange=null to read such "
    "times as null"
)
BEFORE_1970 = (
    "Spark's own operators drop event times before 1970-01-01T00:00:00.001Z: use windowed or "
    "process, or operators='none' if nothing above is stateful"
)


@contextmanager
def without_traceback() -> Iterator[None]:
    """Let Spark show an error of the source or the sink by its message alone, without a traceback.

    For what Spark asks in a Python process that ends with the question, or by the error.
    """
    try:
        yield
    except TidegaugeError:
        # Spark's Python processes read this when they hand an error over; it is what the setting
        # spark.sql.execution.pyspark.udf.hideTraceback.enabled is for the user's own functions.
        os.environ["SPARK_HIDE_TRACEBACK"] = "true"
        raise


class SparkSourceError(TidegaugeError):
    """The base of what this package raises."""


class UnsupportedSparkError(SparkSourceError):
    """A version of PySpark that this package does not run on."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"PySpark {found} is not supported: Tidegauge runs on 4.1, 4.2 and 4.3; "
            "run pip install 'pyspark>=4.1,<4.4'"
        )


def check_spark(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version of PySpark, or raise `UnsupportedSparkError`."""
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if not (4, 1) <= numbers < (4, 4):
        raise UnsupportedSparkError(version)
    return numbers


class InvalidOptionError(SparkSourceError, ValueError):
    """An option that the source does not have, or a value that it does not take."""

    def __init__(self, option: str, message: str) -> None:
        self.option = option
        super().__init__(f"option {option!r}: {message}")


class LoadError(SparkSourceError):
    """A load of the source with a wrong option, stream or address.

    Attributes
    ----------
    reason
        What Spark's Python process said, with the cure.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class TouchedLoadError(SparkSourceError):
    """`watermarked` was given something else than an untouched load of the source."""

    def __init__(self, found: str) -> None:
        self.found = found
        super().__init__(
            f"watermarked() takes the DataFrame of format('tidegauge').load() as it is, and "
            f"found {found} above it; a filter there would remove the rows that carry the "
            "watermark. Call watermarked() first and filter afterwards"
        )


class MissingColumnError(SparkSourceError):
    """A stream lacks a column that an operator reads.

    Attributes
    ----------
    column
        Its name.
    found
        The columns that are there.
    """

    def __init__(self, column: str, found: Sequence[str]) -> None:
        self.column = column
        self.found = found
        super().__init__(
            f"there is no column {column!r} among {', '.join(found)}; an operator in event time "
            "reads event_time, segment (or Kafka's partition) and offset of the source besides the "
            "key and the columns that you name: keep them in all steps before it. If a table lacks "
            "segment and offset, let both be lit(0); then rows of one time come in the order of "
            "their columns"
        )


class StateStoreError(SparkSourceError):
    """The session keeps state where Spark cannot keep timers.

    Attributes
    ----------
    found
        The class that is set.
    """

    def __init__(self, found: str | None) -> None:
        self.found = found
        super().__init__(
            "operators in event time keep their state in RocksDB; before the query starts, set "
            'spark.conf.set("spark.sql.streaming.stateStore.providerClass", '
            '"org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"); '
            f"it is {found!r} now"
        )


class EventTimeOutOfRangeError(SparkSourceError):
    """An event time that Spark's timestamps cannot hold."""

    def __init__(self, event_time: int, segment: int, offset: int) -> None:
        self.event_time = event_time
        self.segment = segment
        self.offset = offset
        super().__init__(
            OUT_OF_RANGE.format(event_time=event_time, offset=offset, segment=segment)
        )


class DataLossError(SparkSourceError):
    """Events that the query still needs are not in the log any more."""

    def __init__(self, segment: int, wanted: int, found: int) -> None:
        self.segment = segment
        self.wanted = wanted
        self.found = found
        there = "ends" if found <= wanted else "continues"
        super().__init__(
            f"the query needs segment {segment} from offset {wanted}, and the log {there} at "
            f"{found}; was it truncated, did its retention drop them, or was it restored from a "
            "backup? Start with a new checkpoint, or set failOnDataLoss=false to continue with the rest"
        )


class LogReplacedError(SparkSourceError):
    """The log of the stream is not the one that the query has read.

    Attributes
    ----------
    found, expected
        Their ids; on Kafka those of the topic.
    """

    def __init__(self, found: str | None, expected: str | None) -> None:
        self.found = found
        self.expected = expected
        super().__init__(
            f"the topic was deleted and created again, or belongs to another cluster, such as a "
            f"mirror (its id is {found} now, not {expected}), but the stream's marks are of the "
            "former topic; delete and create the stream as well, and start with a new checkpoint"
        )


class WrongPythonError(SparkSourceError):
    """Spark would plan with another Python than this one."""

    def __init__(self, found: str, expected: str) -> None:
        self.found = found
        self.expected = expected
        super().__init__(
            f"Spark runs Python sources with {found!r}, not with this interpreter; before the "
            f"session starts, set os.environ['PYSPARK_PYTHON'] = {expected!r}"
        )


class CheckpointError(SparkSourceError):
    """The sink or `follow` cannot read the checkpoint of its query."""

    def __init__(self, location: str, problem: str) -> None:
        self.location = location
        self.problem = problem
        super().__init__(
            f"the checkpoint {location} cannot be read: {problem}; it is read from the driver, by "
            "a path or an address that pyarrow.fs knows"
        )


class WrongCheckpointError(SparkSourceError):
    """`follow` was given another checkpoint than its query has.

    Attributes
    ----------
    location
        What was given.
    """

    def __init__(
        self,
        location: str,
        problem: str,
        cure: str = "pass the query's own checkpointLocation to follow(checkpoint=…)",
    ) -> None:
        self.location = location
        super().__init__(f"{location} is another query's checkpoint: {problem}; {cure}")


class UnfollowedTopicError(SparkSourceError):
    """The query that `follow` is part of does not read the topic as it has to.

    Attributes
    ----------
    topic
        Whose rows the stream's writers note time for.
    """

    def __init__(self, topic: str, problem: str) -> None:
        self.topic = topic
        super().__init__(f"topic {topic!r} cannot be followed: {problem}")


class UnfollowedTableError(SparkSourceError):
    """The query that `follow` is part of does not read the table as it has to.

    Attributes
    ----------
    table
        As it was given.
    """

    def __init__(self, table: str, problem: str) -> None:
        self.table = table
        super().__init__(f"table {table!r} cannot be followed: {problem}")


class ReplacedTableError(SparkSourceError):
    """A table was created again, or replaced by another, since a query started with it.

    Attributes
    ----------
    table
        As it was given.
    """

    def __init__(self, table: str) -> None:
        self.table = table
        super().__init__(
            f"table {table!r} was created again: it is not the one that this query began with; "
            "start the query with a new checkpoint, and with stream= into a new stream"
        )


class TableTakenError(SparkSourceError):
    """A query may not declare the time of a table.

    Attributes
    ----------
    table
        As it was given.
    """

    def __init__(
        self,
        table: str,
        problem: str,
        cure: str = "stop the query that declares it, and pass take_over=True once",
    ) -> None:
        self.table = table
        super().__init__(f"table {table!r}: {problem}; {cure}")


class UnknownColumnsError(SparkSourceError):
    """A frame with other columns than events have."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns
        super().__init__(
            f"format('tidegauge') writes the columns key, event_time and value, but the frame "
            f"has {', '.join(columns)}; write_stream() and as_events() make those columns"
        )


class UnclearDelayError(SparkSourceError):
    """A frame with corrections, without a statement of how late they may come."""

    def __init__(self) -> None:
        super().__init__(
            "the frame has a column 'pane': its corrections are older than the watermark. Pass "
            "output_delay=, the allowed lateness of its windows, to hold the target's watermark "
            "back for them, or late_panes='flagged' to have them arrive as late rows"
        )


class GuessedWatermarkError(SparkSourceError):
    """A query whose watermark is a guess, which must not be noted as a promise."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(
            "Spark's watermark is a guess in this query, and the target would take it as a promise: "
            f"{problem}; {cure}"
        )


class NoWatermarkError(SparkSourceError):
    """An operator of event time was given a DataFrame without a watermark."""

    def __init__(self) -> None:
        super().__init__(
            "nothing drives Spark's watermark here; load the stream with read_stream(), or call "
            "watermarked() or follow() on the load, before the operator"
        )


class OutputError(SparkSourceError):
    """A row that a processor emitted and that is not what it declares.

    Attributes
    ----------
    output
        The name of the output.
    """

    def __init__(self, output: str, message: str) -> None:
        self.output = output
        super().__init__(f"output {output!r}: {message}")
