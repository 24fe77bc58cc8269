"""How a chain did, with Tidegauge's watermark and with Spark's own, by the same arithmetic."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from examples.flights.data import HOUR_MS
from examples.flights.lake.chain import DAY_MS
from examples.flights.lake.jobs import TIMES
from examples.flights.lake.versions import Versions
from tidegauge.event_time import END_OF_TIME


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


def tables_of(flights: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return what each table has to have: its time (ms), ``departures`` and ``delay``."""
    bronze = flights[["origin", "delay", "departed"]].assign(departures=1)
    return {
        "bronze": bronze,
        "silver": _added(bronze, HOUR_MS, "hour"),
        "gold": _added(bronze, DAY_MS, "day"),
    }


def _added(rows: pd.DataFrame, size_ms: int, name: str) -> pd.DataFrame:
    start = (rows["departed"] // size_ms * size_ms).rename(name)
    return rows.groupby(["origin", start])[["departures", "delay"]].sum().reset_index()


def clocks_of(
    tables: Mapping[str, Versions], read: Mapping[str, Mapping[int, int]]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return ``origin``, ``start``, ``departures`` and ``clock`` of all hours and days.

    The clock (ms) is when the newest flight landed that a result rests on, missing if it rests on
    the end of the replay. Of silver and gold, ``read`` has for each version the newest version
    of the table before that it rests on.
    """
    clock, results = tables["bronze"].clock("version"), []
    for name in ("silver", "gold"):
        table = tables[name]
        clock = pd.Series({version: clock[before] for version, before in read[name].items()})
        ended = [version for version, time in table.times.items() if time == END_OF_TIME]
        rows = table.rows.rename(columns={TIMES[name]: "start"})
        landed = rows["version"].map(clock).where(~rows["version"].isin(ended))
        results.append(rows.assign(clock=landed))
    hours, days = results
    return hours, days


def judge_chain(
    name: str, hours: pd.DataFrame, days: pd.DataFrame, gold: pd.DataFrame, *, lost: int
) -> ChainVerdict:
    """Compare what a chain made with the truth about gold."""
    expected = gold.rename(columns={"day": "start"})
    compared = expected.merge(days, on=["origin", "start"], how="left", suffixes=("", "_made"))
    is_open = compared["departures_made"].isna()
    is_wrong = ~is_open & (compared["departures"] != compared["departures_made"])
    waits_for_hours, waits = _waits_h(hours, HOUR_MS), _waits_h(days, DAY_MS)
    return ChainVerdict(
        name=name,
        lost=lost,
        wrong_days=int(is_wrong.sum()),
        open_days=int(is_open.sum()),
        silver_wait_h=float(waits_for_hours.mean()),
        gold_wait_h=float(waits.mean()),
        longest_wait_h=float(waits.max()),
    )


def _waits_h(windows: pd.DataFrame, size_ms: int) -> "pd.Series[float]":
    return (windows["clock"] - windows["start"] - size_ms) / HOUR_MS


def describe(verdicts: Sequence[ChainVerdict], flights: int) -> str:
    """Write a table of what each chain did with so many flights."""
    table = pd.DataFrame(map(asdict, verdicts))
    table.insert(2, "%", (100 * table["lost"] / flights).round(1))
    names = {"name": "", "wrong_days": "wrong days", "open_days": "open days"}
    names |= {"silver_wait_h": "silver waits (h)", "gold_wait_h": "gold waits (h)"}
    table = table.rename(columns={**names, "longest_wait_h": "longest (h)"})
    return table.to_string(index=False, float_format="{:.1f}".format)
