"""The demo's input and arithmetic."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from examples.flights import pipeline
from examples.flights.address import StreamAddress
from examples.flights.carriers import oldest_unreported
from examples.flights.data import HOUR_MS, of_first_days, read_flights, truth
from examples.flights.queries import WindowFolder
from examples.flights.run import run_demo
from examples.flights.waiting import DemoFailedError
from examples.flights.windows import ClosedWindows, judge


def test_the_flights_are_those_that_flew_in_order_of_landing() -> None:
    flights, left_out = read_flights()
    assert (len(flights), left_out) == (327_346, 9_430)
    assert flights["landed"].is_monotonic_increasing
    month = of_first_days(flights, 31)
    assert month["carrier"].nunique() == 16
    assert truth(month)["departures"].sum() == len(month) == 26_223
    assert (month["landed"] - month["departed"]).max() / HOUR_MS > 11


def test_a_carrier_notes_its_oldest_flight_that_has_not_landed() -> None:
    rows = [("JFK", 0.0, 30, 40), ("JFK", 0.0, 10, 50), ("JFK", 0.0, 20, 60)]
    assert oldest_unreported(rows) == [10, 10, 20]


def test_what_is_lost_and_the_waits_are_counted_alike_for_every_query() -> None:
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


def test_a_folder_that_cannot_be_written_is_found_out_at_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "folder"
    assert run_demo(days=1, speed=1, batches=1, output=folder) == 1
    assert "the results cannot be written" in capsys.readouterr().out


class _Windows:
    """Finished windows of a batch, as Spark hands them over."""

    def __init__(self, *rows: tuple[str, int, int, float]) -> None:
        self._rows = rows

    def toPandas(self) -> pd.DataFrame:  # noqa: N802 (Spark's)
        return pd.DataFrame(self._rows, columns=["origin", "start", "departures", "mean_delay"])


def test_a_batch_that_is_repeated_is_stored_once(tmp_path: Path) -> None:
    folder = WindowFolder(tmp_path / "windows")
    assert len(folder.read()) == 0
    batches: list[tuple[int, Any]] = [
        (0, _Windows()),
        (1, _Windows(("JFK", 0, 3, 1.5))),
        (1, _Windows(("JFK", 0, 3, 1.5))),
        (2, _Windows(("LGA", 0, 2, -0.1))),
    ]
    for number, windows in batches:
        folder.take(windows, number)
    stored = folder.read()
    assert stored.to_numpy().tolist() == [["JFK", 0, 3, 1.5, 1], ["LGA", 0, 2, -0.1, 2]]
    assert len(list((tmp_path / "windows").iterdir())) == 2


class _Query:
    """A query that no rows come for."""

    lastProgress = {"batchId": 3}  # noqa: N815, RUF012 (Spark's)

    def exception(self) -> None:
        return None


def test_a_pipeline_that_nothing_comes_for_says_what_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline, "_PATIENCE_S", 0.0)
    query: Any = _Query()
    patience = pipeline.Patience(query, StreamAddress("http://127.0.0.1:1", "demo/flights"))
    patience.check()
    with pytest.raises(DemoFailedError, match="nothing came from demo/flights"):
        patience.check()
