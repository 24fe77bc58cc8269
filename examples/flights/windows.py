"""The windows that a query closed, compared with the truth and with a model of Spark's rule.

The rule, for any watermark: it takes effect in the batch after the one that sets it. There a
window that ends at or below it closes when the batch ends. A row is dropped as late if its window
had closed before, that is, ended at or below what was in effect in the batch before.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from examples.flights.data import HOUR_MS
from examples.flights.waiting import FlightsError
from tidegauge.event_time import END_OF_TIME

_DELAYS_H = np.arange(0, 24.25, 0.25)


@dataclass(frozen=True, slots=True)
class ClosedWindows:
    """What a query did.

    Its windows have ``origin``, ``start`` (ms), ``departures``, ``mean_delay`` and ``batch``;
    those never closed are what it still held open when it had read everything and knew the end.
    """

    name: str
    windows: pd.DataFrame
    never_closed: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row of the table, the same arithmetic for every query.

    Waits are from the end of a window to its result, in hours
    of replay; windows that closed only because the replay ended have none.
    """

    name: str
    wrong: int
    dropped: int
    never_closed: int
    mean_wait_h: float
    max_wait_h: float


def judge(closed: ClosedWindows, clock: "pd.Series[int]", expected: pd.DataFrame) -> Verdict:
    """Compare what a query closed with the truth; the clock (ms) is that of each batch."""
    waits = _waits_h(closed.windows, clock)
    return Verdict(
        name=closed.name,
        wrong=wrong_windows(closed.windows, expected),
        dropped=lost_rows(closed.windows, expected),
        never_closed=closed.never_closed,
        mean_wait_h=float(waits.mean()),
        max_wait_h=float(waits.max()),
    )


def _waits_h(closed: pd.DataFrame, clock: "pd.Series[int]") -> "pd.Series[float]":
    return (closed["batch"].map(clock) - closed["start"] - HOUR_MS) / HOUR_MS


def wrong_windows(emitted: pd.DataFrame, expected: pd.DataFrame) -> int:
    """Count the windows that are missing, too many, or have other numbers than the truth."""
    compared = expected.merge(
        emitted, on=["origin", "start"], how="outer", suffixes=("", "_found"), indicator=True
    )
    right = (
        (compared["_merge"] == "both")
        & (compared["departures"] == compared["departures_found"])
        & ((compared["mean_delay"] - compared["mean_delay_found"]).abs() < 1e-9)
    )
    return int((~right).sum())


def lost_rows(emitted: pd.DataFrame, expected: pd.DataFrame) -> int:
    """Count the rows of the truth that are in no emitted window."""
    return int(expected["departures"].sum() - emitted["departures"].sum())


def close_windows(
    arrivals: pd.DataFrame, watermark: "pd.Series[int]", *, size_ms: int = HOUR_MS
) -> pd.DataFrame:
    """Return ``origin``, ``start``, ``departures`` and ``batch`` of the windows that Spark closes.

    The arrivals have ``origin``, ``departed`` (ms) and ``batch``, and ``departures`` if a row
    stands for several; the watermark (ms) is what each batch sets, for the batches after it.
    Rows that are dropped do not count as departures. A window that no watermark closes has a
    batch behind those that read rows and the one after them.
    """
    # Nothing is set before the first batch, and none of it is in effect in the first.
    in_effect = np.array([0, 0, *watermark.cummax()])
    late_below, closed_below = in_effect[:-1], in_effect[1:]
    start = arrivals["departed"] // size_ms * size_ms
    kept = start + size_ms > late_below[arrivals["batch"]]
    rows = arrivals if "departures" in arrivals else arrivals.assign(departures=1)
    windows = rows[kept].groupby(["origin", start[kept].rename("start")])["departures"].sum()
    closed = windows.reset_index()
    return closed.assign(batch=np.searchsorted(closed_below, closed["start"] + size_ms))


def guess(arrivals: pd.DataFrame, batches: int, delay_h: float) -> "pd.Series[int]":
    """Return Spark's own watermark: the newest row so far less a delay, and in the end the end."""
    watermark = newest_less(arrivals, batches, delay_h)
    watermark.iloc[-1] = END_OF_TIME
    return watermark


def newest_less(arrivals: pd.DataFrame, batches: int, delay_h: float) -> "pd.Series[int]":
    """Return the newest row so far less a delay, batch by batch."""
    newest = arrivals.groupby("batch")["departed"].max().reindex(range(batches), fill_value=0)
    return (newest.cummax() - int(delay_h * HOUR_MS)).clip(lower=0)


def check_rule(closed: ClosedWindows, model: pd.DataFrame) -> None:
    """Raise `FlightsError` if Spark closed other windows, or in other batches, than modelled."""
    columns = ["origin", "start", "departures", "batch"]
    spark, modelled = (
        set(windows[columns].itertuples(index=False, name=None))
        for windows in (closed.windows, model)
    )
    if spark != modelled:
        msg = (
            f"{closed.name}: Spark closed {sorted(spark - modelled)[:3]} where the model of its "
            f"rule has {sorted(modelled - spark)[:3]} (origin, start, departures, batch)"
        )
        raise FlightsError(msg)


def curve(arrivals: pd.DataFrame, clock: "pd.Series[int]") -> pd.DataFrame:
    """Return what is dropped, and the mean wait, for every delay from 0 to 24 h."""
    rows = []
    for delay_h in _DELAYS_H:
        closed = close_windows(arrivals, guess(arrivals, len(clock), delay_h))
        dropped = len(arrivals) - closed["departures"].sum()
        rows.append((delay_h, dropped, _waits_h(closed, clock).mean()))
    return pd.DataFrame(rows, columns=["delay_h", "dropped", "mean_wait_h"])
