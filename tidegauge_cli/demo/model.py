"""Spark's rule for windows as a few lines of arithmetic, for any watermark.

A watermark takes effect in the batch after the one that told it. There a window that ends at or
below it closes when the batch ends. A row is dropped as late if its window had closed before,
that is, ended at or below what was in effect in the batch before.
"""

import numpy as np
import pandas as pd

from tidegauge.event_time import END_OF_TIME
from tidegauge_cli.demo.flights import HOUR_MS
from tidegauge_cli.demo.waiting import DemoFailedError
from tidegauge_cli.demo.windows import ClosedWindows, waits_h

_DELAYS_H = np.arange(0, 24.25, 0.25)


def close_windows(arrivals: pd.DataFrame, watermark: "pd.Series[int]") -> pd.DataFrame:
    """Find the windows of one hour that Spark closes, and in which batch.

    Parameters
    ----------
    arrivals
        Columns ``origin``, ``departed`` (ms) and ``batch``.
    watermark
        What each batch tells (ms), for the batches after it.

    Returns
    -------
    pandas.DataFrame
        Columns ``origin``, ``start`` (ms), ``departures`` (of the rows not dropped) and
        ``batch``.
    """
    # Nothing is told before the first batch, and none of it is in effect in the first.
    told = np.array([0, 0, *watermark.cummax()])
    late_below, closed_below = told[:-1], told[1:]
    start = arrivals["departed"] // HOUR_MS * HOUR_MS
    kept = start + HOUR_MS > late_below[arrivals["batch"]]
    windows = arrivals[kept].groupby(["origin", start[kept].rename("start")]).size()
    found = windows.rename("departures").reset_index()
    return found.assign(batch=np.searchsorted(closed_below, found["start"] + HOUR_MS))


def guess(arrivals: pd.DataFrame, batches: int, delay_h: float) -> "pd.Series[int]":
    """Tell Spark's own watermark: the newest row so far less a delay, and in the end the end."""
    newest = arrivals.groupby("batch")["departed"].max().reindex(range(batches), fill_value=0)
    told = (newest.cummax() - int(delay_h * HOUR_MS)).clip(lower=0)
    told.iloc[-1] = END_OF_TIME
    return told


def check_rule(closed: ClosedWindows, model: pd.DataFrame) -> None:
    """Raise `DemoFailedError` if Spark closed other windows, or in other batches, than modelled."""
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
        raise DemoFailedError(msg)


def curve(arrivals: pd.DataFrame, clock: "pd.Series[int]") -> pd.DataFrame:
    """Find what is dropped, and the mean wait, for every delay from 0 to 24 h."""
    rows = []
    for delay_h in _DELAYS_H:
        closed = close_windows(arrivals, guess(arrivals, len(clock), delay_h))
        dropped = len(arrivals) - closed["departures"].sum()
        rows.append((delay_h, dropped, waits_h(closed, clock).mean()))
    return pd.DataFrame(rows, columns=["delay_h", "dropped", "mean_wait_h"])
