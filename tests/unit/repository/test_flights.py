"""The arithmetic of examples/flights: the model of Spark's rule for windows, alone and in a chain of tables."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from examples.flights.batches import Batch, batches_of
from examples.flights.carriers import oldest_unreported
from examples.flights.data import HOUR_MS, of_first_days, read_flights, truth
from examples.flights.lake.versions import Versions, check_versions
from examples.flights.report import write_results
from examples.flights.waiting import FlightsError
from examples.flights.windows import (
    ClosedWindows,
    check_rule,
    close_windows,
    guess,
    judge,
)
from tidegauge.event_time import END_OF_TIME

_PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "demo.md"


def test_a_carrier_notes_its_oldest_flight_that_has_not_landed() -> None:
    rows = [("JFK", 0.0, 30, 40), ("JFK", 0.0, 10, 50), ("JFK", 0.0, 20, 60)]
    assert oldest_unreported(rows) == [10, 10, 20]


def test_a_batch_counts_once_though_spark_reports_it_while_it_waits_and_none_after_the_end() -> (
    None
):
    progress = [
        {
            "batchId": number,
            "sources": [{"endOffset": f'{{"position": {{"0": {read}}}, "bound": {bound}}}'}],
        }
        for number, read, bound in [
            (0, 0, "null"),
            (1, 0, "null"),
            (1, 2, 5),
            (2, 3, END_OF_TIME),
            (3, 3, END_OF_TIME),
        ]
    ]
    assert batches_of(progress) == [
        Batch({"0": 0}, 0),
        Batch({"0": 2}, 5),
        Batch({"0": 3}, END_OF_TIME),
    ]


def test_a_query_that_closed_other_windows_than_the_model_is_reported_with_them() -> None:
    model = pd.DataFrame({"origin": ["JFK"], "start": [0], "departures": [2], "batch": [3]})
    check_rule(ClosedWindows("delay 1 h", model, 0), model)
    spark = ClosedWindows("delay 1 h", model.assign(batch=4), 0)
    with pytest.raises(FlightsError, match=r"delay 1 h: .*'JFK', 0, 2, 4.*'JFK', 0, 2, 3"):
        check_rule(spark, model)


def test_each_version_has_to_have_all_that_is_below_its_time() -> None:
    rows = pd.DataFrame(
        {
            "origin": "JFK",
            "hour": [HOUR_MS, 0, 3 * HOUR_MS],
            "version": [1, 2, 2],
            "file": [0, 1, 1],
            "departures": 2,
            "delay": 1.0,
        }
    )
    times = {2: 2 * HOUR_MS, 3: 3 * HOUR_MS, 4: END_OF_TIME}
    right = Versions("silver", rows, times, batches={}, versions=5, files=2)
    assert check_versions(right, rows, "hour") == 3
    early = replace(right, times={1: 2 * HOUR_MS, **times})
    with pytest.raises(FlightsError, match=r"silver has \(1, 2, 1.0\) .* at version 1"):
        check_versions(early, rows, "hour")
    for wrong in ({2: 5, 3: 4, 4: END_OF_TIME}, {2: 2 * HOUR_MS}):
        with pytest.raises(FlightsError, match="the time fell, or is not at the end"):
            check_versions(replace(right, times=wrong), rows, "hour")
    with pytest.raises(FlightsError, match="other rows than pandas"):
        check_versions(right, rows.assign(origin=["JFK", "LGA", "JFK"]), "hour")
    twice = pd.concat([rows, rows.tail(1).assign(version=4)])
    with pytest.raises(FlightsError, match="at version 4"):
        check_versions(replace(right, rows=twice), rows, "hour")


def test_the_pandas_of_the_page_compute_the_files_of_the_demo_and_the_figures_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_a_run(tmp_path / "tidegauge-demo")
    capsys.readouterr()
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
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert f"1 a batch{january}" == shown


def _write_a_run(folder: Path) -> None:
    """Write what a run of a day would, if all carriers noted at once what they know."""
    folder.mkdir()
    flights = of_first_days(read_flights(), 1)
    arrivals = flights.assign(batch=flights.index // 20)
    last = int(arrivals["batch"].max()) + 1
    clock = arrivals.groupby("batch")["landed"].max().reindex(range(last + 1)).ffill()
    oldest = arrivals.groupby("batch")["departed"].min()[::-1].cummin()[::-1].shift(-1)
    noted = oldest.clip(upper=clock).fillna(clock).reindex(clock.index, fill_value=END_OF_TIME)
    batches = pd.DataFrame({"clock": clock, "watermark": noted}).astype("int64")
    means = truth(flights)
    verdicts = []
    for watermark in (batches["watermark"], guess(arrivals, len(batches), 1)):
        windows = close_windows(arrivals, watermark)
        closed = ClosedWindows("tidegauge", windows.assign(mean_delay=0.0), 0)
        verdicts.append(judge(closed, batches["clock"], means))
    write_results(folder, verdicts, arrivals, batches.rename_axis("batch"), means)
