"""What queries report of themselves: shown for five minutes, and bounded."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from controller.clocks import Clocks
from reader_client import ReaderGroup
from spark_source import ProgressListener
from tests.query_progress import TEN, batch_progress
from tests.service.api import Api
from tests.service.in_process import Service
from tidegauge.aggregation.writers import Now

STREAM = "queries/events"
GROUP = "queries/counts"
PATH = f"/v1/reader-groups/{GROUP}"
NOON = 1_704_110_400_000
REPORTED = {
    "bound": NOON,
    "lag_ms": 1_500,
    "backlog": 40,
    "late": 7,
    "late_by_ms": 60_000,
    "late_writers": {"gateway-1": 5, "gateway-2": 2},
    "late_output": 3,
    "partially_late": 1,
    "state_bytes": 4_096,
}
SHOWN = [
    'tidegauge_group_backlog_rows{group="queries/counts"} 40.0',
    'tidegauge_group_bound_seconds{group="queries/counts"} 1.7041104e+09',
    'tidegauge_group_lag_seconds{group="queries/counts"} 1.5',
    'tidegauge_group_late_by_seconds{group="queries/counts"} 60.0',
    'tidegauge_group_late_output_rows_total{group="queries/counts"} 3.0',
    'tidegauge_group_late_rows_total{group="queries/counts"} 7.0',
    'tidegauge_group_late_writer_rows_total{group="queries/counts",writer="gateway-1"} 5.0',
    'tidegauge_group_late_writer_rows_total{group="queries/counts",writer="gateway-2"} 2.0',
    'tidegauge_group_partially_late_rows_total{group="queries/counts"} 1.0',
    'tidegauge_group_state_bytes{group="queries/counts"} 4096.0',
]


class HandClock:
    """Both clocks of the service, set by hand."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """A clock that stands at noon."""
    clock = HandClock(NOON)
    monkeypatch.setattr(Clocks, "now", lambda _clocks: clock.now())
    return clock


@pytest.fixture
def api(service: Service, clock: HandClock) -> Iterator[Api]:
    """Calls to a service with one group, whose clock stands at noon."""
    with service.reached_by_clients(), Api(service.url, STREAM, transport=service) as calls:
        calls.create(log="embedded")
        calls.client.put(PATH, json={"streams": [STREAM]}).raise_for_status()
        yield calls
        calls.client.delete(PATH).raise_for_status()
        calls.client.delete(calls.path).raise_for_status()


def _shown(api: Api) -> list[str]:
    lines = api.client.get("/metrics").text.splitlines()
    return sorted(one for one in lines if f'group="{GROUP}"' in one and "readers" not in one)


def _progress(api: Api) -> Any:
    return api.client.get(PATH).json()["progress"]


def _report(api: Api, progress: dict[str, Any]) -> httpx.Response:
    return api.client.post(f"{PATH}/progress", json=progress)


def test_progress_is_shown_for_five_minutes_after_the_last_news(
    api: Api, clock: HandClock
) -> None:
    assert (_progress(api), _shown(api)) == (None, [])
    _report(api, REPORTED).raise_for_status()
    clock.now_ms += 299_999
    assert _progress(api) == {**REPORTED, "silent_ms": 299_999}
    assert _shown(api) == SHOWN
    clock.now_ms += 1
    assert (_progress(api), _shown(api)) == (None, [])


def test_what_a_query_does_not_know_has_no_series(api: Api) -> None:
    _report(api, {"late": 2}).raise_for_status()
    assert _shown(api) == [
        'tidegauge_group_late_output_rows_total{group="queries/counts"} 0.0',
        'tidegauge_group_late_rows_total{group="queries/counts"} 2.0',
        'tidegauge_group_partially_late_rows_total{group="queries/counts"} 0.0',
    ]


def test_progress_that_is_reported_twice_counts_once(api: Api) -> None:
    with ReaderGroup(str(api.client.base_url), GROUP) as group:
        for _ in range(2):
            group.report_progress(late=3, bound=2**63 - 1)
        progress = group.describe().progress
    assert progress is not None
    assert (progress.late, progress.bound) == (3, 2**63 - 1)


def test_a_group_that_is_made_anew_has_no_progress(api: Api) -> None:
    _report(api, REPORTED).raise_for_status()
    api.client.delete(PATH).raise_for_status()
    api.client.put(PATH, json={"streams": [STREAM]}).raise_for_status()
    assert _progress(api) is None


def test_a_listener_that_is_closed_has_reported_the_newest_batch(api: Api) -> None:
    path = "/v1/reader-groups/demo/counts"
    api.client.put(path, json={"streams": [STREAM]}).raise_for_status()
    with ProgressListener(str(api.client.base_url)) as listener:
        for _ in range(3):  # each has three late rows, two of them by a
            event = SimpleNamespace(progress=batch_progress(x=TEN))
            listener.onQueryProgress(event)  # type: ignore[arg-type]
    shown = api.client.get(path).json()["progress"]
    assert (shown["bound"], shown["late"], shown["late_writers"]) == (NOON, 9, {"a": 6})
    assert listener.failures == 0
    api.client.delete(path).raise_for_status()
