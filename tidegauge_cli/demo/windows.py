"""What a query closed, compared with the truth; the same arithmetic for every query."""

from dataclasses import dataclass

import pandas as pd

from tidegauge_cli.demo.flights import HOUR_MS


@dataclass(frozen=True, slots=True)
class ClosedWindows:
    """What a query did.

    Attributes
    ----------
    name
        Of the query.
    windows
        Those that it closed: columns ``origin``, ``start`` (ms), ``departures``, ``mean_delay``
        and ``batch``.
    never_closed
        How many it still held open when it had read everything and was told the end.
    """

    name: str
    windows: pd.DataFrame
    never_closed: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row of the table.

    Attributes
    ----------
    name
        Of the query.
    wrong
        Windows that are missing, or whose numbers differ from the truth.
    dropped
        Rows of the truth that are in no closed window.
    never_closed
        See `ClosedWindows`.
    mean_wait_h, max_wait_h
        From the end of a window to its result, in hours of replay; not of those windows that
        closed only because the replay ended.
    """

    name: str
    wrong: int
    dropped: int
    never_closed: int
    mean_wait_h: float
    max_wait_h: float


def judge(closed: ClosedWindows, clock: "pd.Series[int]", expected: pd.DataFrame) -> Verdict:
    """Compare what a query closed with the truth.

    Parameters
    ----------
    closed
        What it closed.
    clock
        The time of the replay (ms) at each batch, but for the one after the end.
    expected
        The truth.
    """
    waits = waits_h(closed.windows, clock)
    return Verdict(
        name=closed.name,
        wrong=wrong_windows(closed.windows, expected),
        dropped=lost_rows(closed.windows, expected),
        never_closed=closed.never_closed,
        mean_wait_h=float(waits.mean()),
        max_wait_h=float(waits.max()),
    )


def waits_h(closed: pd.DataFrame, clock: "pd.Series[int]") -> "pd.Series[float]":
    """Find how long after its end each window closed; none where only the end closed it."""
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
