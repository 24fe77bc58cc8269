"""The demo of tables without Spark: the model of the chain, and what is checked of its tables."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from examples.flights.data import HOUR_MS
from examples.flights.lake.chain import DAY_MS, guessed_chain
from examples.flights.lake.jars import delta_jars
from examples.flights.lake.verdicts import Truth, clocks_of, judge_chain
from examples.flights.lake.versions import Versions, check_versions
from examples.flights.waiting import DemoFailedError
from tidegauge.event_time import END_OF_TIME


def _arrivals(*departed_h: float) -> pd.DataFrame:
    """One flight a file of bronze."""
    departed = [int(hour * HOUR_MS) for hour in departed_h]
    return pd.DataFrame(
        {"origin": "JFK", "departed": departed, "batch": range(len(departed_h))}
    )


def test_the_delays_of_silver_and_gold_add_up() -> None:
    hourly = _arrivals(*range(72))
    starts = {delay_h: guessed_chain(hourly, 72, delay_h).days for delay_h in (0, 6, 12)}
    # An hour that begins at 24:00 closes day 0 in gold: read in the batch after it ended.
    assert {one: days["file"].tolist() for one, days in starts.items()} == {
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


def _table(*versions: tuple[int | None, list[float]]) -> Versions:
    """What versions say (h) and bring, from version 1 on."""
    rows = [
        {"origin": "JFK", "hour": int(hour * HOUR_MS), "version": number, "file": number - 1}
        for number, (_, hours) in enumerate(versions, start=1)
        for hour in hours
    ]
    times = {
        number: until_h * HOUR_MS
        for number, (until_h, _) in enumerate(versions, start=1)
        if until_h is not None
    }
    table = pd.DataFrame(rows).assign(departures=2, delay=1.0)
    final = {len(versions) + 1: END_OF_TIME}
    batches = {number: number - 1 for number in times | final}
    return Versions("silver", table, times | final, batches, len(versions) + 2, len(versions))


def test_each_version_has_to_have_all_that_is_below_its_time() -> None:
    right = _table((None, [1]), (2, [0, 3]), (3, []), (4, [5]))
    truth = right.rows
    assert check_versions(right, truth, "hour") == 4
    with pytest.raises(DemoFailedError, match=r"silver has \(1, 2, 1.0\) .* at version 1"):
        check_versions(replace(right, times={1: 2 * HOUR_MS, **right.times}), truth, "hour")
    with pytest.raises(DemoFailedError, match="the time fell"):
        check_versions(replace(right, times={2: 5, 3: 4, 6: END_OF_TIME}), truth, "hour")
    with pytest.raises(DemoFailedError, match="not at the end"):
        check_versions(replace(right, times={2: 2 * HOUR_MS}), truth, "hour")
    with pytest.raises(DemoFailedError, match="other rows than pandas"):
        check_versions(right, truth.assign(origin=["JFK", "LGA", "JFK", "JFK"]), "hour")
    twice = pd.concat([truth, truth.tail(1).assign(version=5)])
    with pytest.raises(DemoFailedError, match="at version 5"):
        check_versions(replace(right, rows=twice), truth, "hour")


def test_a_result_waited_until_the_newest_flight_landed_that_it_rests_on() -> None:
    flights = pd.DataFrame(
        {"origin": "JFK", "delay": 1.0, "departed": [0, HOUR_MS], "landed": [HOUR_MS, DAY_MS]}
    )
    bronze = _table((0, [0]), (1, [1]))
    bronze = replace(bronze, rows=bronze.rows.assign(landed=flights["landed"]))
    silver = _table((1, [0]), (2, [1]))
    gold = _table((24, [0]))
    gold = replace(gold, rows=gold.rows.rename(columns={"hour": "day"}))
    tables = {"bronze": bronze, "silver": silver, "gold": gold}
    read = {"silver": {1: 1, 2: 2, 3: 3}, "gold": {1: 2, 2: 3}}
    hours, days = clocks_of(tables, read)
    assert hours["clock"].tolist() == [HOUR_MS, DAY_MS]
    verdict = judge_chain("tidegauge", hours, days, Truth(flights))
    assert (verdict.lost, verdict.wrong_days, verdict.open_days) == (0, 0, 0)
    assert (verdict.silver_wait_h, verdict.gold_wait_h, verdict.longest_wait_h) == (11, 0, 0)


def test_jars_that_are_missing_or_of_another_spark_are_told_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DemoFailedError, match=r"no folder is named; .* make demo-lake sets up"):
        delta_jars(None)
    with pytest.raises(DemoFailedError, match=f"{tmp_path} has none"):
        delta_jars(tmp_path)
    jar = tmp_path / "delta-spark_4.2_2.13-4.4.0.jar"
    jar.touch()
    monkeypatch.setattr("pyspark.__version__", "4.3.0")
    with pytest.raises(
        DemoFailedError, match=r"for Spark 4\.2, and this is 4\.3; make demo-lake"
    ):
        delta_jars(tmp_path)
    monkeypatch.setattr("pyspark.__version__", "4.2.1")
    assert delta_jars(tmp_path) == [jar]
