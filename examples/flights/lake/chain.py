"""What the chain does under Spark's own watermark in each job, by the model of Spark's rule.

Each job reads the table before it, a file a batch, as if the next one were always there. A batch of
silver that closes no hour writes no file. Nothing closes the windows that are open at the end.
"""

from dataclasses import dataclass

import pandas as pd

from examples.flights.data import HOUR_MS
from examples.flights.windows import close_windows, newest_less

DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Chain:
    """What two jobs in a row closed, and lost.

    Attributes
    ----------
    hours, days
        Closed windows of silver and gold, with ``origin``, ``start`` (ms), ``departures``, the
        ``batch`` of that job, and the ``file`` of bronze that had been read.
    lost
        Flights that a job dropped as late.
    """

    hours: pd.DataFrame
    days: pd.DataFrame
    lost: int


def guessed_chain(arrivals: pd.DataFrame, files: int, delay_h: float) -> Chain:
    """Return what silver and gold close if each takes the newest row less a delay as its watermark.

    The arrivals have ``origin``, ``departed`` (ms) and ``batch``, one of so many files of bronze.
    """
    hours, lost = _job(arrivals, pd.Series(range(files)), delay_h, size_ms=HOUR_MS)
    closing = pd.Series(sorted(hours["batch"].unique()))
    file = hours.groupby("batch")["file"].first().reset_index(drop=True)
    written = hours.rename(columns={"start": "departed"}).drop(columns="file")
    written["batch"] = closing.searchsorted(hours["batch"])
    days, lost_again = _job(written, file, delay_h, size_ms=DAY_MS)
    return Chain(hours, days, lost + lost_again)


def _job(
    rows: pd.DataFrame, files: "pd.Series[int]", delay_h: float, *, size_ms: int
) -> tuple[pd.DataFrame, int]:
    """Return the windows that one job closes, and how many flights it drops.

    The files of bronze are those that its batches rest on.
    """
    watermark = newest_less(rows, len(files), delay_h)
    windows = close_windows(rows, watermark, size_ms=size_ms)
    flights = rows["departures"].sum() if "departures" in rows else len(rows)
    # A last batch without rows closes what the last watermark closes.
    closed = windows[windows["batch"] <= len(files)].reset_index(drop=True)
    file = files.reindex(closed["batch"].clip(upper=len(files) - 1))
    return closed.assign(file=file.array), int(flights - windows["departures"].sum())
