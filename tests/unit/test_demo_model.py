"""Spark's rule for windows, as the demo's model and the page for its readers have it."""

import re
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from examples.flights.batches import cut
from examples.flights.data import HOUR_MS, of_first_days, read_flights, truth
from examples.flights.report import Results, print_table, write_results
from examples.flights.waiting import DemoFailedError
from examples.flights.windows import (
    ClosedWindows,
    check_rule,
    close_windows,
    curve,
    guess,
    judge,
)
from tidegauge.event_time import END_OF_TIME

_PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "demo.md"


def _arrivals(*departed_h: float) -> pd.DataFrame:
    """One flight a batch."""
    return pd.DataFrame(
        {
            "origin": "JFK",
            "departed": [int(hour * HOUR_MS) for hour in departed_h],
            "batch": range(len(departed_h)),
        }
    )


def _watermark(*told_h: int) -> "pd.Series[int]":
    return pd.Series([hour * HOUR_MS for hour in told_h] + [END_OF_TIME])


def _closed(windows: pd.DataFrame) -> list[tuple[float, int, int]]:
    return [
        (start / HOUR_MS, departures, batch)
        for start, departures, batch in windows[["start", "departures", "batch"]].to_numpy()
    ]


def test_a_watermark_closes_windows_in_the_batch_after_and_drops_rows_one_later() -> None:
    arrivals = _arrivals(0.1, 2.5, 0.2, 0.3)
    windows = close_windows(arrivals, _watermark(0, 1, 1, 1))
    assert _closed(windows) == [(0, 2, 2), (2, 1, 5)]


def test_a_window_that_ends_above_the_watermark_stays_open() -> None:
    windows = close_windows(_arrivals(1.0, 1.0, 1.9), _watermark(1, 1, 1))
    assert _closed(windows) == [(1, 3, 4)]


def test_sparks_own_watermark_is_the_newest_row_less_the_delay() -> None:
    arrivals = _arrivals(2.0, 5.0, 3.0, 9.0)
    arrivals["batch"] = [0, 2, 3, 5]
    told = guess(arrivals, 7, 3)
    assert told.tolist() == [hour * HOUR_MS for hour in (0, 0, 2, 2, 2, 6)] + [END_OF_TIME]


def test_a_longer_delay_drops_less_and_waits_longer() -> None:
    arrivals = _arrivals(0.5, 2.5, 4.5, 6.5, 0.5, 8.5, 10.5)
    clock = (arrivals["departed"] + HOUR_MS).cummax()
    found = curve(arrivals, clock).set_index("delay_h").loc[[0, 2, 4]]
    assert found["dropped"].tolist() == [1, 1, 0]
    assert found["mean_wait_h"].tolist() == [4.0, 35 / 6, 7.5]


def test_every_batch_is_cut_where_tidegauges_ended_also_one_without_rows() -> None:
    place = pd.MultiIndex.from_product([[0], range(3)])
    arrivals = pd.DataFrame({"landed": [10, 30, 20]}, index=place)
    progress = [
        {"sources": [{"endOffset": f'{{"position": {{"0": {read}}}, "bound": {bound}}}'}]}
        for read, bound in [(0, "null"), (2, 5), (2, 40), (3, 41), (3, END_OF_TIME), (3, 0)]
    ]
    batches = cut(arrivals, progress)
    assert arrivals["batch"].tolist() == [1, 1, 3]
    assert batches["rows"].tolist() == [0, 2, 0, 1, 0]
    assert batches["clock"].tolist() == [0, 30, 40, 41, 41]
    assert batches["watermark"].tolist() == [0, 5, 40, 41, END_OF_TIME]


def test_a_query_that_closed_other_windows_than_the_model_is_told_with_them() -> None:
    model = pd.DataFrame({"origin": ["JFK"], "start": [0], "departures": [2], "batch": [3]})
    check_rule(ClosedWindows("delay 1 h", model, 0), model)
    spark = ClosedWindows("delay 1 h", model.assign(batch=4), 0)
    with pytest.raises(DemoFailedError, match=r"delay 1 h: .*'JFK', 0, 2, 4.*'JFK', 0, 2, 3"):
        check_rule(spark, model)


def test_the_pandas_of_the_page_compute_what_the_demo_wrote_and_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_a_run(tmp_path / "tidegauge-demo")
    page = _PAGE.read_text()
    monkeypatch.chdir(tmp_path)
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {})
    written, january = capsys.readouterr().out.split("1 a batch", 1)
    assert written.splitlines() == [
        "tidegauge 0 8.7 11.7",
        "1 h 188 2.9 3.5",
        "3 h 69 4.8 5.1",
        "6 h 1 7.8 8.1",
        "12 h 0 14.0 14.0",
    ]
    compared = pd.read_csv("tidegauge-demo/comparison.csv").round(1)
    assert compared["dropped"].tolist() == [0, 188]
    assert compared["mean_wait_h"].tolist() == [8.7, 2.9]
    (said,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert f"1 a batch{january}" == said


def _write_a_run(folder: Path) -> None:
    """Write what a run of a day would, if all told what they know at once."""
    folder.mkdir()
    flights = of_first_days(read_flights()[0], 1)
    arrivals = flights.assign(batch=flights.index // 20)
    last = int(arrivals["batch"].max()) + 1
    clock = arrivals.groupby("batch")["landed"].max().reindex(range(last + 1)).ffill()
    oldest = arrivals.groupby("batch")["departed"].min()[::-1].cummin()[::-1].shift(-1)
    told = oldest.clip(upper=clock).fillna(clock).reindex(clock.index, fill_value=END_OF_TIME)
    batches = pd.DataFrame({"clock": clock, "watermark": told}).astype("int64")
    means = truth(flights)
    results = []
    for watermark in (batches["watermark"], guess(arrivals, len(batches), 1)):
        windows = close_windows(arrivals, watermark)
        closed = ClosedWindows("tidegauge", windows.assign(mean_delay=0.0), 0)
        results.append(judge(closed, batches["clock"], means))
    found = Results(
        verdicts=results,
        arrivals=arrivals,
        batches=batches.rename_axis("batch"),
        windows=means,
        curve=curve(arrivals, batches["clock"]),
    )
    print_table(Console(quiet=True), found)
    write_results(folder, found)
