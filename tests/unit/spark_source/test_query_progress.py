"""What is read out of Spark's progress, and what a listener makes of it; no Spark runs."""

import builtins
import logging
from collections import Counter
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from spark_source import ProgressListener, query_report
from spark_source.progress.batch import BatchProgress, Lateness, StreamProgress, read_progress
from tests.patience import wait_until
from tests.query_progress import NOON, TEN, batch_progress, source_progress
from tests.server import free_port


def test_a_batch_is_read_from_what_source_and_operators_observe_whatever_the_names() -> None:
    progress = batch_progress(
        x=TEN,
        y={"late": 2, "partially_late": 1, "windows": 4},
        z={"late": 5, "keys": 1, "buffered": 0, "timers": 0},
        mine={"late": 100, "other": 1},
    )
    assert read_progress(progress) == BatchProgress(
        batch=7,
        timestamp="2024-01-01T12:00:01.000Z",
        rows=10,
        streams=[StreamProgress("demo/rides", "demo/counts", NOON, 1_500, 40)],
        lateness=Lateness(3, 60_000, Counter(a=2), late_output=7, partially_late=1),
        state_bytes=6_144,
    )


def test_a_batch_without_rows_has_none_that_are_late() -> None:
    source: dict[str, Any]
    source = {"rows": 0, "bound": None, "late": 0, "late_by": None, "late_writers": {}}
    operator = {"late": None, "partially_late": None, "windows": None}
    assert read_progress(batch_progress(x=source, y=operator)).lateness == Lateness()


def test_names_and_values_of_what_was_observed_may_lie_apart() -> None:
    schema = {"type": "struct", "fields": [{"name": name} for name in TEN]}
    apart = {"values": list(TEN.values()), "schema": schema}
    assert read_progress(batch_progress(x=apart)) == read_progress(batch_progress(x=TEN))


@pytest.mark.parametrize("offset", ["null", "None", "17", '{"topic": {"0": 5}}', "offset 3"])
def test_other_sources_are_left_out(offset: str) -> None:
    assert (
        read_progress(batch_progress(sources=[source_progress(offset, offset)])).streams == []
    )


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
            event = SimpleNamespace(progress=batch_progress(x=TEN))
            listener.onQueryProgress(event)  # type: ignore[arg-type]
            wait_until(partial(_has_failed, listener, failures))
    (said,) = [one.getMessage() for one in caplog.records]
    assert said.startswith("cannot report the progress of demo/counts: no answer from http://")


def test_a_report_is_a_table_for_people() -> None:
    query = SimpleNamespace(name="counts", recentProgress=[batch_progress(x=TEN)])
    assert str(query_report(query)).split() == [
        *("counts", "batch", "time", "rows", "bound", "lag", "late", "late_output"),
        *("partially_late", "backlog", "state"),
        *("7", "2024-01-01T12:00:01.000Z", "10", "2024-01-01T12:00:00.000Z", "1s", "3", "0"),
        *("0", "40", "0.01", "MiB"),
    ]


def test_a_report_in_a_notebook_has_a_plot() -> None:
    query = SimpleNamespace(name="<counts>", recentProgress=[batch_progress(x=TEN)] * 30)
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
    query = SimpleNamespace(name=None, recentProgress=[batch_progress(x=TEN)])
    assert query_report(query)._repr_html_().startswith("<h4>query</h4><table")


def test_a_report_of_a_query_that_has_done_nothing_says_so() -> None:
    query = SimpleNamespace(name="counts", recentProgress=[])
    assert str(query_report(query)) == "counts: no batch is done yet"
    assert query_report(query)._repr_html_() == "<p>counts: no batch is done yet</p>"
