"""Tables with a seeded history, written without Spark: rows out of order, notes, and what others do."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from tests.lake.lakes import Lake
from tidegauge.tables import note

HOUR = 3_600_000
BEGIN = 1_700_006_400_000
DISORDER = 2 * HOUR
_STEP = HOUR // 2
_SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])

Kind = Literal["rows", "foreign", "late", "note", "compact"]
"""Rows with a note; rows of somebody who says nothing; late ones besides; a note alone."""


@dataclass
class History:
    """A table that tests append to, and what a reader has to know of it.

    Attributes
    ----------
    on_time, late
        The times of rows by their ids.
    until
        Of the newest note, ms.
    """

    lake: Lake
    name: str
    notes: bool = True
    on_time: dict[int, int] = field(default_factory=dict)
    late: dict[int, int] = field(default_factory=dict)
    until: int | None = None

    @property
    def table(self) -> str:
        """Its address."""
        return self.lake.table(self.name)

    def commit(self, times: Iterable[int], until: int | None = None, late: int = 0) -> None:
        """Append rows; the last ones are late. A time goes into the note, if commits have one."""
        given = list(times)
        first = len(self.on_time) + len(self.late)
        ids = range(first, first + len(given))
        for number, time in zip(ids, given, strict=True):
            is_late = number >= ids.stop - late
            (self.late if is_late else self.on_time)[number] = time
        micros = pa.array([time * 1_000 for time in given], pa.int64()).cast(_SCHEMA[1].type)
        rows = pa.table([pa.array(ids, pa.int64()), micros], schema=_SCHEMA)
        said = {}
        if until is not None:
            self.until = until
            if self.notes:
                said = note(until, job="writer", format=self.lake.format, late=late)
        if self.lake.format == "delta":
            properties = CommitProperties(custom_metadata=said)
            write_deltalake(self.table, rows, mode="append", commit_properties=properties)
        else:
            self._opened().append(rows, snapshot_properties=said)

    def version(self) -> int:
        """Tell the newest version."""
        return next(self.lake.log(self.name).newest_first()).version

    def windows(self, bound: int, *, of: dict[int, int] | None = None) -> dict[int, set[int]]:
        """Compute the ids of each hour that ends at or below a bound."""
        found: dict[int, set[int]] = {}
        for number, time in (self.on_time if of is None else of).items():
            start = time // HOUR * HOUR
            if start + HOUR <= bound:
                found.setdefault(start, set()).add(number)
        return found

    def _opened(self) -> Any:
        properties = dict(self.lake.catalog or {})
        catalog = load_catalog(properties.pop("name"), **properties)
        catalog.create_namespace_if_not_exists(self.lake.space)
        return catalog.create_table_if_not_exists(self.table, _SCHEMA)


class Writers:
    """Make a history go on, by a seed; half an hour of event time a step."""

    def __init__(self, history: History, spark: SparkSession, seed: int) -> None:
        self._history, self._spark = history, spark
        self._random = Random(seed)
        self._clock = BEGIN

    def go_on(self, *kinds: Kind) -> None:
        """Make a commit of each kind."""
        for kind in kinds:
            self._clock += _STEP
            self._commit(kind)

    def shuffled(self, *kinds: Kind) -> list[Kind]:
        """Put kinds into an order."""
        return self._random.sample(kinds, len(kinds))

    def _commit(self, kind: Kind) -> None:
        until = self._clock - DISORDER
        times = [
            self._clock - self._random.randrange(DISORDER)
            for _ in range(self._random.randint(2, 6))
        ]
        former = self._history.until
        if kind == "compact":
            self._history.lake.compact(self._spark, self._history.name)
        elif kind == "foreign":
            self._history.commit(times)
        elif kind == "note":
            self._history.commit([], until)
        elif kind == "late" and former is not None:
            behind = [former - self._random.randint(1, 3 * HOUR) for _ in range(2)]
            self._history.commit([*times, *behind], until, late=2)
        else:
            self._history.commit(times, until)
