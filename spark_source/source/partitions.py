"""What a batch is divided in: what one task reads. Planners send it, and read nothing themselves."""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from spark_source.options.load import Options


@dataclass(slots=True)
class SegmentPartition(InputPartition):
    """Events of one segment to be read by one task.

    Attributes
    ----------
    bound
        Of the batch's end, ms: the watermark of every row; None in batch reads.
    late_below
        Bound of the batch's start, ms: an event is late if its time is below it. None before the
        first mark and in batch reads.
    marks
        Of batch reads: offsets from which a bound counts, and those bounds. There an event is
        late if its time is below the last bound whose offset it has reached.
    tick
        Whether the tick row of the batch comes with it.
    log_id
        Of the log that was planned from; another one has other events at these offsets.
    """

    options: Options
    stream_id: str
    segment: int
    start: int
    end: int
    bound: int | None = None
    late_below: int | None = None
    marks: tuple[list[int], list[int]] = ([], [])
    tick: bool = False
    log_id: str | None = None


@dataclass(slots=True)
class TickPartition(InputPartition):
    """The tick row of a batch without events."""

    options: Options
    bound: int | None
    late_below: int | None
