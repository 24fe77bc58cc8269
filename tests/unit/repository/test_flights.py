"""The arithmetic of examples/flights: the model of Spark's rule for windows, alone and in a chain of tables."""

from dataclasses import replace

import pandas as pd
import pytest

from examples.flights.batches import Batch, batches_of
from examples.flights.carriers import oldest_unreported
from examples.flights.data import HOUR_MS
from examples.flights.lake.versions import Versions, check_versions
from examples.flights.waiting import FlightsError
from examples.flights.windows import (
    ClosedWindows,
    check_rule,
)
from tidegauge.event_time import END_OF_TIME


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
