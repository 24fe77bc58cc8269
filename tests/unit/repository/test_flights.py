"""The arithmetic of examples/flights: the model of Spark's rule for windows, alone and in a chain of tables."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from examples.flights.batches import Batch, batches_of, cut
from examples.flights.carriers import next_landing, oldest_unreported
from examples.flights.data import HOUR_MS, of_first_days, read_flights, truth
from examples.flights.lake.chain import DAY_MS, guessed_chain
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


def _arrivals(*departed_h: float) -> pd.DataFrame:
    """One flight a batch."""
    return pd.DataFrame(
        {
            "origin": "JFK",
            "departed": [int(hour * HOUR_MS) for hour in departed_h],
            "batch": range(len(departed_h)),
        }
    )


def _watermark(*hours: int) -> "pd.Series[int]":
    return pd.Series([hour * HOUR_MS for hour in hours] + [END_OF_TIME])


def _closed(windows: pd.DataFrame) -> list[tuple[float, int, int]]:
    return [
        (start / HOUR_MS, departures, batch)
        for start, departures, batch in windows[["start", "departures", "batch"]].to_numpy()
    ]


def test_the_flights_are_those_that_flew_in_order_of_landing() -> None:
    flights = read_flights()
    assert len(flights) == 327_346
    assert flights["landed"].is_monotonic_increasing
    month = of_first_days(flights, 31)
    assert month["carrier"].nunique() == 16
    assert truth(month)["departures"].sum() == len(month) == 26_223
    assert (month["landed"] - month["departed"]).max() / HOUR_MS > 11


def test_a_carrier_notes_its_oldest_flight_that_has_not_landed() -> None:
    rows = [("JFK", 0.0, 30, 40), ("JFK", 0.0, 10, 50), ("JFK", 0.0, 20, 60)]
    assert oldest_unreported(rows) == [10, 10, 20]


@pytest.mark.parametrize(
    ("read", "batches_left", "until"),
    [(0, 3, 29), (2, 2, 49), (4, 1, 60), (1, 3, 39), (1, 1, 60), (1, 0, 60), (6, 0, 60)],
)
def test_unread_flights_are_divided_over_the_batches_that_are_left(
    read: int, batches_left: int, until: int
) -> None:
    assert next_landing([10, 20, 30, 40, 50, 60], read, batches_left) == until
    assert next_landing([10, 10, 10, 20], 0, 4) == 10


def test_a_watermark_closes_windows_in_the_batch_after_and_drops_rows_one_later() -> None:
    arrivals = _arrivals(0.1, 2.5, 0.2, 0.3)
    windows = close_windows(arrivals, _watermark(0, 1, 1, 1))
    assert _closed(windows) == [(0, 2, 2), (2, 1, 5)]


def test_sparks_own_watermark_is_the_newest_row_less_the_delay() -> None:
    arrivals = _arrivals(2.0, 5.0, 3.0, 9.0)
    arrivals["batch"] = [0, 2, 3, 5]
    watermark = guess(arrivals, 7, 3)
    assert watermark.tolist() == [HOUR_MS * hour for hour in (0, 0, 2, 2, 2, 6)] + [END_OF_TIME]


def test_losses_and_waits_are_counted_alike_for_every_query() -> None:
    expected = pd.DataFrame(
        {
            "origin": ["JFK", "LGA"],
            "start": [0, 0],
            "departures": [3, 2],
            "mean_delay": [1.0, 2.0],
        }
    )
    windows = expected.assign(departures=[3, 1], batch=[1, 2])
    clock = pd.Series([0, 3 * HOUR_MS])
    verdict = judge(ClosedWindows("q", windows, 4), clock, expected)
    assert (verdict.wrong, verdict.dropped, verdict.never_closed) == (1, 1, 4)
    # The other window closed in the batch after the end: it has no wait.
    assert (verdict.mean_wait_h, verdict.max_wait_h) == (2.0, 2.0)


def test_arrivals_are_cut_where_batches_ended_also_where_one_has_no_rows() -> None:
    place = pd.MultiIndex.from_tuples([(0, 0), (0, 1), (1, 0), (1, 1)])
    arrivals = pd.DataFrame({"landed": [10, 30, 20, 40]}, index=place)
    positions: list[dict[str, int]] = [
        {},
        {"0": 1},
        {"0": 1, "1": 1},
        {"0": 1, "1": 1},
        {"0": 2, "1": 2},
    ]
    watermarks = (0, 5, 35, 36, END_OF_TIME)
    batches = cut(arrivals, list(map(Batch, positions, watermarks)))
    assert arrivals["batch"].tolist() == [1, 4, 2, 4]
    assert batches["rows"].tolist() == [0, 1, 1, 0, 2]
    assert batches["clock"].tolist() == [0, 10, 35, 36, 40]
    assert batches["watermark"].tolist() == [0, 5, 35, 36, END_OF_TIME]


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


def test_the_delays_of_silver_and_gold_add_up() -> None:
    hourly = _arrivals(*range(72))
    starts = {delay_h: guessed_chain(hourly, 72, delay_h).days for delay_h in (0, 6, 12)}
    # An hour that begins at 24:00 closes day 0 in gold: read in the batch after it ended.
    assert {delay_h: days["file"].tolist() for delay_h, days in starts.items()} == {
        0: [27, 51],
        6: [39, 63],
        12: [51],
    }
    assert starts[6]["start"].tolist() == [0, DAY_MS]
    assert starts[6]["departures"].tolist() == [24, 24]


def test_a_flight_that_silver_drops_is_in_no_day() -> None:
    chain = guessed_chain(_arrivals(0.5, 3.0, 3.5, 0.7, *range(4, 40)), 40, 1)
    assert chain.lost == 1
    assert chain.hours["departures"].tolist()[:2] == [1, 2]
    # A batch of silver that closes no hour writes no file, which gold does not read.
    assert chain.hours["batch"].tolist()[:3] == [2, 6, 7]
    assert chain.days["departures"].tolist() == [23]


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
