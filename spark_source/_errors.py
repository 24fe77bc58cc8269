"""What can go wrong with the Spark source."""

from collections.abc import Sequence

from tidegauge.errors import TidegaugeError


class SparkSourceError(TidegaugeError):
    """The base of what this package raises."""


class InvalidOptionError(SparkSourceError):
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
            "reads event_time, segment and offset of the source besides the key and the columns "
            "it is told: carry them through what is done to the stream before it"
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
    """An event time that Spark's timestamps or watermark cannot hold."""

    def __init__(self, event_time: int, segment: int, offset: int) -> None:
        self.event_time = event_time
        self.segment = segment
        self.offset = offset
        super().__init__(
            f"event time {event_time} at offset {offset} of segment {segment} is outside what "
            "Spark can hold (1970-01-01T00:00:00.001Z to 9999-12-31T23:59:59.999Z); correct "
            "the writer, or set outOfRange=null to read such times as null"
        )


class DataLossError(SparkSourceError):
    """Events that the query still needs are not in the log any more."""

    def __init__(self, segment: int, wanted: int, found: int) -> None:
        self.segment = segment
        self.wanted = wanted
        self.found = found
        there = "ends" if found <= wanted else "goes on"
        super().__init__(
            f"the query needs segment {segment} from offset {wanted}, and the log {there} at "
            f"{found}; was it truncated or restored from a backup? Start with a new "
            "checkpoint, or set failOnDataLoss=false to go on with what is there"
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


class NoWatermarkError(SparkSourceError):
    """An operator of event time was given a DataFrame without a watermark."""

    def __init__(self) -> None:
        super().__init__(
            "nothing drives Spark's watermark here; load the stream with read_stream(), or call "
            "watermarked() on the load, before the operator"
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
