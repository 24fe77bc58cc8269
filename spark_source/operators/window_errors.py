"""What can go wrong with windows on Spark."""

from spark_source.errors import SparkSourceError


class BoundAheadError(SparkSourceError):
    """Rows are late that were merged with others, since by their source's promise they are not."""

    def __init__(self) -> None:
        super().__init__(
            "Spark's watermark is ahead of the bound of a source, and rows that are late were "
            "merged already; set spark.sql.streaming.multipleWatermarkPolicy to min and start "
            "with a new checkpoint, or drop the column late_below before windowed()"
        )


class AggregateTypeError(SparkSourceError):
    """A result that is not of its aggregate's type.

    Attributes
    ----------
    aggregate
        The name of its column in the output.
    """

    def __init__(self, aggregate: str, type_name: str) -> None:
        self.aggregate = aggregate
        super().__init__(
            f"a result of aggregate {aggregate!r} does not fit its type {type_name}; cast the "
            "column to a wider one, or correct the output of an aggregate of your own"
        )
