"""What is read out of Spark's progress, and what a listener makes of it; no Spark runs."""

import builtins
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark_source import ProgressListener, query_report
from spark_source._progress import BatchProgress, Lateness, Standing, read_progress
from tests.patience import wait_until
from tests.server import free_port

NOON = 1_704_110_400_000
FLAGGED = {"late": 3, "late_by": 60_000, "late_writers": {"a": 2, "": 1}}
TEN = {"rows": 10, "bound": "2024-01-01T12:00:00.000Z", **FLAGGED}


def _source(latest: Any, end: Any) -> dict[str, Any]:
    rates = {"numInputRows": 11, "inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0}
    offsets = {"startOffset": "null", "endOffset": end, "latestOffset": latest}
    return {"description": "source", **offsets, **rates}


OURS = _source(
    {
        "stream": "demo/rides",
        "reader_group": "demo/counts",
        "lag_ms": 1_500,
        "backlog_rows": 40,
    },
    {"stream_id": "s", "position": {"0": 10}, "bound": NOON, "revision": 3, "run": 1},
)


def _state(**more: int) -> dict[str, Any]:
    counts = (
        "numRowsTotal numRowsUpdated numRowsRemoved allUpdatesTimeMs allRemovalsTimeMs "
        "commitTimeMs memoryUsedBytes numRowsDroppedByWatermark numShufflePartitions "
        "numStateStoreInstances"
    )
    empty: dict[str, Any] = dict.fromkeys(counts.split(), 0)
    return {**empty, "operatorName": "op", "memoryUsedBytes": 1_024, "customMetrics": more}


def _progress(
    *, batch: int = 7, sources: Sequence[Any] = (OURS,), **observed: Mapping[str, Any]
) -> StreamingQueryProgress:
    """Make the progress of a batch as Spark Connect, and `recentProgress`, hand it over."""
    document = {
        "id": str(UUID(int=1)),
        "runId": str(UUID(int=2)),
        "name": "counts",
        "timestamp": "2024-01-01T12:00:01.000Z",
        "batchId": batch,
        "batchDuration": 5,
        "durationMs": {},
        "eventTime": {},
        "stateOperators": [_state(), _state(rocksdbSstFileSize=4_096)],
        "sources": list(sources),
        "sink": {"description": "sink", "numOutputRows": 0},
        "numInputRows": 11,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "observedMetrics": observed,
    }
    return StreamingQueryProgress.fromJson(json.loads(json.dumps(document)))


def test_a_batch_is_read_from_what_source_and_operators_observe_whatever_the_names() -> None:
    progress = _progress(
        x=TEN,
        y={"late": 2, "partially_late": 1, "windows": 4},
        z={"late": 5, "keys": 1, "buffered": 0, "timers": 0},
        mine={"late": 100, "other": 1},
    )
    assert read_progress(progress) == BatchProgress(
        batch=7,
        timestamp="2024-01-01T12:00:01.000Z",
        rows=10,
        standings=[Standing("demo/rides", "demo/counts", NOON, 1_500, 40)],
        lateness=Lateness(3, 60_000, Counter(a=2), late_output=7, partially_late=1),
        state_bytes=6_144,
    )


def test_a_batch_without_rows_has_none_that_are_late() -> None:
    source: dict[str, Any]
    source = {"rows": 0, "bound": None, "late": 0, "late_by": None, "late_writers": {}}
    operator = {"late": None, "partially_late": None, "windows": None}
    assert read_progress(_progress(x=source, y=operator)).lateness == Lateness()


def test_names_and_values_of_what_was_observed_may_lie_apart() -> None:
    schema = {"type": "struct", "fields": [{"name": name} for name in TEN]}
    apart = {"values": list(TEN.values()), "schema": schema}
    assert read_progress(_progress(x=apart)) == read_progress(_progress(x=TEN))


@pytest.mark.parametrize("offset", ["null", "None", "17", '{"topic": {"0": 5}}', "offset 3"])
def test_other_sources_are_left_out(offset: str) -> None:
    assert read_progress(_progress(sources=[_source(offset, offset)])).standings == []


@pytest.fixture
def listener() -> Iterator[ProgressListener]:
    with ProgressListener(f"http://127.0.0.1:{free_port()}") as one:
        yield one


def _has_failed(listener: ProgressListener, times: int) -> bool:
    return listener.failures == times


def test_a_service_that_is_down_is_logged_once_and_counted_and_no_query_learns_of_it(
    listener: ProgressListener, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for failures in (1, 2, 3):
            event = SimpleNamespace(progress=_progress(x=TEN))
            listener.onQueryProgress(event)  # type: ignore[arg-type]
            wait_until(partial(_has_failed, listener, failures))
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith("the progress of demo/counts is not told: no answer from http://")


def test_a_report_is_a_table_for_people() -> None:
    query = SimpleNamespace(name="counts", recentProgress=[_progress(x=TEN)])
    assert str(query_report(query)).split() == [
        *("counts", "batch", "time", "rows", "bound", "lag", "late", "late_output"),
        *("partially_late", "backlog", "state"),
        *("7", "2024-01-01T12:00:01.000Z", "10", "2024-01-01T12:00:00.000Z", "1s", "3", "0"),
        *("0", "40", "0.01", "MiB"),
    ]


def test_a_report_in_a_notebook_has_a_plot() -> None:
    query = SimpleNamespace(name="<counts>", recentProgress=[_progress(x=TEN)] * 30)
    shown = query_report(query, batches=3)._repr_html_()
    assert shown.startswith("<h4>&lt;counts&gt;</h4><svg ")
    assert shown.count("<tr") == 4


def test_a_report_without_matplotlib_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    query = SimpleNamespace(name=None, recentProgress=[_progress(x=TEN)])
    assert query_report(query)._repr_html_().startswith("<h4>query</h4><table")


def test_a_report_of_a_query_that_has_done_nothing_says_so() -> None:
    query = SimpleNamespace(name="counts", recentProgress=[])
    assert str(query_report(query)) == "counts: no batch is done yet"
    assert query_report(query)._repr_html_() == "<p>counts: no batch is done yet</p>"
