"""How the chain did, with Tidegauge's watermark and with Spark's own, by the same arithmetic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import pandas as pd
from rich.console import Console
from rich.table import Table

from examples.flights.data import HOUR_MS
from examples.flights.lake.chain import DAY_MS
from examples.flights.lake.jobs import TIMES
from examples.flights.lake.versions import Versions
from tidegauge.event_time import END_OF_TIME


class Truth:
    """What the tables have to have, from the data alone."""

    def __init__(self, flights: pd.DataFrame) -> None:
        bronze = flights[["origin", "delay", "departed"]].assign(departures=1)
        self.flights = len(flights)
        self._tables = {
            "bronze": bronze,
            "silver": _added(bronze, "departed", HOUR_MS).rename(columns={"start": "hour"}),
            "gold": _added(bronze, "departed", DAY_MS).rename(columns={"start": "day"}),
        }

    def of(self, table: str) -> pd.DataFrame:
        """Take the rows of a table, with its column of time (ms), ``departures`` and ``delay``."""
        return self._tables[table]


def _added(rows: pd.DataFrame, time: str, size_ms: int) -> pd.DataFrame:
    start = (rows[time] // size_ms * size_ms).rename("start")
    return rows.groupby(["origin", start])[["departures", "delay"]].sum().reset_index()


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """One row of the table.

    Waits are from the end of an hour or a day to its result, in hours of replay; results that came
    only because the replay had ended have none. A day that is still open at the end is not wrong.
    """

    name: str
    lost: int
    wrong_days: int
    open_days: int
    silver_wait_h: float
    gold_wait_h: float
    longest_wait_h: float


def clocks_of(
    tables: Mapping[str, Versions], read: Mapping[str, Mapping[int, int]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Find ``origin``, ``start``, ``departures`` and ``clock`` of all hours and days.

    The clock (ms) is when the newest flight landed that a result rests on, missing if it rests on
    the end of the replay. By table and version, the newest version of the table before is given
    that was read.
    """
    clock, found = tables["bronze"].clock("version"), []
    for name in ("silver", "gold"):
        table = tables[name]
        clock = pd.Series({one: clock[before] for one, before in read[name].items()})
        ended = [version for version, time in table.times.items() if time == END_OF_TIME]
        rows = table.rows.rename(columns={TIMES[name]: "start"})
        seen = rows["version"].map(clock).where(~rows["version"].isin(ended))
        found.append(rows.assign(clock=seen))
    hours, days = found
    return hours, days


def judge_chain(
    name: str, hours: pd.DataFrame, days: pd.DataFrame, truth: Truth, *, lost: int | None = None
) -> ChainVerdict:
    """Compare what a chain made with the truth; what is not in gold is lost, unless it is told."""
    expected = truth.of("gold").rename(columns={"day": "start"})
    compared = expected.merge(days, on=["origin", "start"], how="left", suffixes=("", "_found"))
    is_open = compared["departures_found"].isna()
    is_wrong = ~is_open & (compared["departures"] != compared["departures_found"])
    waits_of_hours, waits = _waits_h(hours, HOUR_MS), _waits_h(days, DAY_MS)
    return ChainVerdict(
        name=name,
        lost=truth.flights - int(days["departures"].sum()) if lost is None else lost,
        wrong_days=int(is_wrong.sum()),
        open_days=int(is_open.sum()),
        silver_wait_h=float(waits_of_hours.mean()),
        gold_wait_h=float(waits.mean()),
        longest_wait_h=float(waits.max()),
    )


def _waits_h(windows: pd.DataFrame, size_ms: int) -> "pd.Series[float]":
    return (windows["clock"] - windows["start"] - size_ms) / HOUR_MS


def print_verdicts(console: Console, verdicts: Sequence[ChainVerdict], truth: Truth) -> None:
    """Print a row for each chain."""
    days = len(truth.of("gold"))
    table = Table(
        title=f"{truth.flights} flights, by airport and hour (silver), and in {days} airport-days "
        "(gold); waits are in hours"
    )
    table.add_column("watermark", no_wrap=True)
    headings = ("lost", "%", "wrong days", "open days", "silver waits", "gold waits", "longest")
    for heading in headings:
        table.add_column(heading, justify="right")
    for one in verdicts:
        share = f"{100 * one.lost / truth.flights:.1f}"
        counts = (str(one.lost), share, str(one.wrong_days), str(one.open_days))
        spans = (one.silver_wait_h, one.gold_wait_h, one.longest_wait_h)
        cells = (*counts, *("" if isnan(span) else f"{span:.1f}" for span in spans))
        table.add_row(one.name, *cells, style="bold" if one is verdicts[0] else "")
    console.print(table)
