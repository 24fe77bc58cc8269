"""Opening the log of a table, of whichever format."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from tidegauge.extras import needs_extra
from tidegauge.tables.history import Commit


class TableLog(Protocol):
    """The commits of a table.

    Attributes
    ----------
    name
        As it was given.
    table_id
        Of the table: another one where it was made again.
    """

    name: str

    @property
    def table_id(self) -> str:
        """See above."""

    def refresh(self) -> None:
        """Find new commits."""

    def newest_first(self) -> Iterator[Commit]:
        """List the commits that are kept."""

    def covered(self, version: int) -> Iterator[Commit]:
        """List, newest first, the commits that a position covers which covers a version.

        Commits right behind it that brought no rows are covered at once.
        """

    def committed(self, query: str) -> int | None:
        """Find the newest batch of a query that is in the table; None if there is none."""


def open_log(
    table: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    catalog: Mapping[str, str] | None = None,
) -> TableLog:
    """Open the log of a Delta table, or with a catalog of an Iceberg table.

    Raises
    ------
    UnreadableTableError
        If there is none, or it cannot be reached.
    """
    with needs_extra("reading a table", extra="tables"):
        if catalog is not None:
            from tidegauge.tables.iceberg import IcebergLog  # noqa: PLC0415 (an extra)

            return IcebergLog(table, catalog)
        from tidegauge.tables.delta import DeltaLog  # noqa: PLC0415 (the same)

        return DeltaLog(table, storage_options)
