"""What an operator puts out, as DataFrames."""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from spark_source.errors import InvalidOptionError

LATE = "late"


class Outputs:
    """The outputs of an operator, for one query or for several.

    Attributes
    ----------
    frame
        All outputs, for a query that writes more than one of them: the column ``output`` names
        the output that a row is of.

    Examples
    --------
    >>> def write(batch: DataFrame, number: int) -> None:
    ...     upsert(changes.output(of=batch), number)
    ...     append(changes.output("late", of=batch), number)
    >>> changes.frame.writeStream.foreachBatch(write).start()  # doctest: +SKIP
    """

    def __init__(self, frame: DataFrame, columns: Mapping[str, Sequence[str]]) -> None:
        self.frame = frame
        self._columns = columns

    def output(self, name: str | None = None, *, of: DataFrame | None = None) -> DataFrame:
        """Return the rows of one output.

        Parameters
        ----------
        name
            Of the output; the main one unless given.
        of
            A batch of ``frame`` in ``foreachBatch``, where a query writes several outputs. Two
            queries would run the operator twice, each with state of its own.

        Raises
        ------
        InvalidOptionError
            If there is no such output.
        """
        chosen = next(iter(self._columns)) if name is None else name
        if chosen not in self._columns:
            there = ", ".join(self._columns)
            raise InvalidOptionError("output", f"{chosen!r} is not one of {there}")
        rows = self.frame if of is None else of
        return rows.where(F.col("output") == chosen).select(*self._columns[chosen])
