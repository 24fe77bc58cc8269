"""Visits of a site in a table of SQLite, which page views that come late correct.

A visit is a session: it ends when its visitor has been silent for 30 minutes. The telephone of a
visitor without network hands its views in later, and they may prolong a visit, or join two. So
the query takes back what it has said before it says something new, and the table follows: a
retraction removes a row, a result adds one. A batch and its number are one transaction, so a
batch that comes again after a crash changes nothing. Views that are later than 2 hours are in a
table of their own.

    pip install '.[all]'
    tidegauge serve &
    python -m examples.corrected_windows
"""

import argparse
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import httpx
from pyspark.sql import DataFrame, Row, SparkSession

from reader_client import StreamClient
from spark_source import count, quick_start, read_stream, session, windowed
from writer_client import Writer

GAP = timedelta(minutes=30)
LATENESS = timedelta(hours=2)


class View(NamedTuple):
    """A view of a page, and in which minute it was."""

    visitor: str
    minute: int


class Wave(NamedTuple):
    """Views that come together, and the minute below which nothing is to follow."""

    views: list[View]
    complete_below: int


WAVES = [
    Wave([View("ann", 0), View("ann", 20), View("bob", 5)], 60),
    Wave([View("ann", 90), View("bob", 70)], 130),
    # From Ann's telephone: what looked like two visits was one.
    Wave([View("ann", 45), View("ann", 65), View("bob", 140)], 150),
    Wave([View("bob", 190), View("ann", 12)], 300),
    # More than two hours after the end of that visit of Bob's.
    Wave([View("bob", 6), View("ann", 310)], 330),
]
TOO_LATE = View("bob", 6)

_START = datetime(2024, 1, 1, tzinfo=UTC)
_TABLES = """
CREATE TABLE IF NOT EXISTS visits (
    visitor TEXT, first TEXT, until TEXT, views INTEGER, PRIMARY KEY (visitor, first, until)
);
CREATE TABLE IF NOT EXISTS too_late (visitor TEXT, at TEXT);
CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY);
"""

Visit: TypeAlias = tuple[str, str, str, int]
"""A row of the table."""


def count_visits(views: DataFrame) -> DataFrame:
    """Count the views of each visit; both outputs are in one frame, so one query writes both."""
    counted = windowed(
        views.withColumnRenamed("key", "visitor"),
        session(GAP),
        key="visitor",
        aggregates={"views": count()},
        allowed_lateness=LATENESS,
        accumulation="accumulating_and_retracting",
    )
    return counted.frame


def store(batch: DataFrame, number: int, *, path: Path) -> None:
    """Apply a batch to the tables, if it was not applied before."""
    rows = batch.collect()
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(_TABLES)
        if database.execute("SELECT 1 FROM batches WHERE number = ?", (number,)).fetchone():
            return
        database.execute("INSERT INTO batches VALUES (?)", (number,))
        # In their order: a retraction comes before the result that takes its place.
        for row in rows:
            if row["output"] == "late":
                late = row["late"]["visitor"], _shown(row["late"]["event_time"])
                database.execute("INSERT INTO too_late VALUES (?, ?)", late)
            else:
                _apply(database, row["result"])


def _apply(database: sqlite3.Connection, result: Row) -> None:
    window = result["window"]
    visit = result["visitor"], _shown(window["start"]), _shown(window["end"])
    if result["kind"] == "retraction":
        database.execute("DELETE FROM visits WHERE (visitor, first, until) = (?, ?, ?)", visit)
    else:
        row = *visit, result["views"]
        database.execute("INSERT OR REPLACE INTO visits VALUES (?, ?, ?, ?)", row)


def hand_in(writer: Writer, wave: Wave) -> None:
    """Write views, and promise that none of before will follow."""
    for view in wave.views:
        writer.write(b"", key=view.visitor, event_time=_at(view.minute))
    writer.note_time(_at(wave.complete_below))
    writer.flush()


def catch_up(spark: SparkSession, url: str, stream: str, folder: Path) -> None:
    """Read what is there, and correct the tables."""
    views = read_stream(spark, url=url, stream=stream)
    query = (
        count_visits(views)
        .writeStream.foreachBatch(partial(store, path=folder / "visits.db"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    query.processAllAvailable()
    query.stop()


def stored_visits(folder: Path) -> list[Visit]:
    """Read the table."""
    with closing(sqlite3.connect(folder / "visits.db")) as database:
        rows: list[Visit] = database.execute(
            "SELECT visitor, first, until, views FROM visits ORDER BY visitor, first"
        ).fetchall()
    return rows


def expected_visits() -> list[Visit]:
    """Divide views into visits in plain Python, as if all had come in order."""
    gap = GAP // timedelta(minutes=1)
    visits: list[list[View]] = []
    for view in sorted(view for wave in WAVES for view in wave.views if view != TOO_LATE):
        if not visits or view > View(visits[-1][-1].visitor, visits[-1][-1].minute + gap):
            visits.append([])
        visits[-1].append(view)
    return [
        (of[0].visitor, _shown(_at(of[0].minute)), _shown(_at(of[-1].minute + gap)), len(of))
        for of in visits
    ]


def _at(minute: int) -> datetime:
    return _START + timedelta(minutes=minute)


def _shown(at: datetime) -> str:
    # PySpark hands out times of the local zone, without saying so.
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _running_spark() -> SparkSession:
    quick_start()
    settings: dict[str, bool | float | int | str | None] = {
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        # Windows keep their state in RocksDB.
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution"
        ".streaming.state.RocksDBStateStoreProvider",
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def correct(spark: SparkSession, url: str, stream: str, folder: Path) -> None:
    """Hand in wave after wave, and show the table behind each; then end the stream."""
    with StreamClient(url, stream) as client:
        client.create(segments=2, mark_interval_ms=0, mark_resolution_ms=0)
    with Writer(url, stream, "site") as writer:
        for wave in WAVES:
            hand_in(writer, wave)
            catch_up(spark, url, stream, folder)
            print(f"complete below {_shown(_at(wave.complete_below))}:")
            print(*(f"  {visit}" for visit in stored_visits(folder)), sep="\n")
    httpx.post(f"{url}/v1/streams/{stream}/seal").raise_for_status()
    catch_up(spark, url, stream, folder)


def main() -> int:
    """Correct the table until the stream has ended, and compare it with plain Python."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8470")
    parser.add_argument("--stream", default="site/views")
    parser.add_argument("--folder", type=Path, default=Path("corrected-windows"))
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True)
    spark = _running_spark()
    correct(spark, asked.url, asked.stream, asked.folder)
    spark.stop()

    found, expected = stored_visits(asked.folder), expected_visits()
    print("at the end:", *(f"  {visit}" for visit in found), sep="\n")
    print("as plain Python divides them" if found == expected else f"expected {expected}")
    return int(found != expected)


if __name__ == "__main__":
    sys.exit(main())
