"""What a query emitted, compared with the truth; the same arithmetic for every query."""

from dataclasses import dataclass

import pandas as pd

from tidegauge_cli.demo.flights import HOUR_MS


@dataclass(frozen=True, slots=True)
class Emission:
    """A batch of finished windows.

    Attributes
    ----------
    batch
        Of the query.
    windows
        Columns ``origin``, ``start`` (ms), ``departures``, ``mean_delay``.
    wall
        Wall clock at which they came, s.
    """

    batch: int
    windows: pd.DataFrame
    wall: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row of the table.

    Attributes
    ----------
    name
        Of the query.
    batches
        How many it ran.
    emitted, wrong
        Windows it emitted, and those whose numbers differ from the truth.
    lost
        Rows of the truth that are in no emitted window.
    mean_wait_h, max_wait_h
        From the end of a window to its result, in hours of replay.
    """

    name: str
    batches: int
    emitted: int
    wrong: int
    lost: int
    mean_wait_h: float
    max_wait_h: float


def judge(
    name: str, emissions: list[Emission], clock: dict[int, int], expected: pd.DataFrame
) -> Verdict:
    """Compare what a query emitted with the truth.

    Parameters
    ----------
    name
        Of the query.
    emissions
        What it emitted.
    clock
        The arrival (ms) of the newest row that each batch had read.
    expected
        The truth.
    """
    emitted = pd.concat(
        [one.windows.assign(clock=clock[one.batch]) for one in emissions if len(one.windows)],
        ignore_index=True,
    )
    waits = (emitted["clock"] - emitted["start"] - HOUR_MS) / HOUR_MS
    return Verdict(
        name=name,
        batches=max(clock) + 1,
        emitted=len(emitted),
        wrong=wrong_windows(emitted, expected),
        lost=lost_rows(emitted, expected),
        mean_wait_h=float(waits.mean()),
        max_wait_h=float(waits.max()),
    )


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


def running_clock(newest_by_batch: dict[int, int | None], start_ms: int) -> dict[int, int]:
    """Carry the newest arrival over batches without rows."""
    clock: dict[int, int] = {}
    newest = start_ms
    for batch in range(max(newest_by_batch, default=-1) + 1):
        newest = max(newest, newest_by_batch.get(batch) or newest)
        clock[batch] = newest
    return clock
