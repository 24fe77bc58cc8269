"""What queries tell of themselves: shown for five minutes, by every controller, and bounded."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from reader_client import ReaderGroup
from spark_source import ProgressListener
from tests.conformance.hand_clock import HandClock
from tests.conftest import NewServer
from tests.query_progress import TEN, batch_progress
from tests.server import Api, ServerProcess

STREAM = "queries/events"
GROUP = "queries/counts"
PATH = f"/v1/reader-groups/{GROUP}"
NOON = 1_704_110_400_000
TOLD = {
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


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> HandClock:
    return HandClock(tmp_path_factory.mktemp("clock") / "ms")


@pytest.fixture(scope="module")
def served(new_server: NewServer, clock: HandClock) -> Iterator[ServerProcess]:
    with new_server(launcher=clock.launcher) as server:
        yield server


@pytest.fixture
def api(served: ServerProcess, clock: HandClock) -> Iterator[Api]:
    """Calls to a server with one group, whose clock stands at noon."""
    clock.set(NOON)
    with Api(served.url, STREAM) as calls:
        calls.create(log="embedded")
        calls.client.put(PATH, json={"streams": [STREAM]}).raise_for_status()
        yield calls
        calls.client.delete(PATH).raise_for_status()
        calls.client.delete(calls.path).raise_for_status()


def _shown(server: ServerProcess) -> list[str]:
    lines = server.metrics().splitlines()
    return sorted(one for one in lines if f'group="{GROUP}"' in one and "readers" not in one)


def test_progress_is_shown_for_five_minutes_after_the_last_news(
    served: ServerProcess, api: Api, clock: HandClock
) -> None:
    assert api.client.get(PATH).json()["progress"] is None
    assert _shown(served) == []
    api.client.post(f"{PATH}/progress", json=TOLD).raise_for_status()
    clock.set(NOON + 299_999)
    assert api.client.get(PATH).json()["progress"] == {**TOLD, "silent_ms": 299_999}
    assert _shown(served) == SHOWN
    clock.set(NOON + 300_000)
    assert api.client.get(PATH).json()["progress"] is None
    assert _shown(served) == []


def test_what_a_query_does_not_know_has_no_series(served: ServerProcess, api: Api) -> None:
    api.client.post(f"{PATH}/progress", json={"late": 2}).raise_for_status()
    assert _shown(served) == [
        'tidegauge_group_late_output_rows_total{group="queries/counts"} 0.0',
        'tidegauge_group_late_rows_total{group="queries/counts"} 2.0',
        'tidegauge_group_partially_late_rows_total{group="queries/counts"} 0.0',
    ]


def test_progress_told_twice_counts_once(served: ServerProcess, api: Api) -> None:
    with ReaderGroup(served.url, GROUP) as group:
        for _ in range(2):
            group.report_progress(late=3, bound=2**63 - 1)
        progress = group.describe().progress
    assert progress is not None
    assert (progress.late, progress.bound) == (3, 2**63 - 1)


def test_a_group_that_is_made_anew_has_no_progress(api: Api) -> None:
    api.client.post(f"{PATH}/progress", json=TOLD).raise_for_status()
    api.client.delete(PATH).raise_for_status()
    api.client.put(PATH, json={"streams": [STREAM]}).raise_for_status()
    assert api.client.get(PATH).json()["progress"] is None


def test_progress_of_no_group_is_refused_with_the_cure(api: Api) -> None:
    answer = api.client.post("/v1/reader-groups/queries/none/progress", json=TOLD)
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_group")
    assert "PUT /v1/reader-groups/queries/none over HTTP" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"late": -1}, "late"),
        ({"backlog": 1.5}, "backlog"),
        ({"state_bytes": 2**63}, "state_bytes"),
        ({"bound": "noon"}, "bound"),
        ({"lag": 5}, "lag"),
        ({"late_writers": {"no name": 1}}, "late_writers"),
        ({"late_writers": {f"writer-{number}": 1 for number in range(11)}}, "late_writers"),
    ],
)
def test_progress_that_cannot_be_is_refused(api: Api, wrong: Any, field: str) -> None:
    answer = api.client.post(f"{PATH}/progress", json=wrong)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"].startswith(field)


def test_a_listener_that_is_closed_has_told_the_newest_batch(
    served: ServerProcess, api: Api
) -> None:
    path = "/v1/reader-groups/demo/counts"
    api.client.put(path, json={"streams": [STREAM]}).raise_for_status()
    with ProgressListener(served.url) as listener:
        for _ in range(3):  # each has three late rows, two of them by a
            event = SimpleNamespace(progress=batch_progress(x=TEN))
            listener.onQueryProgress(event)  # type: ignore[arg-type]
    told = api.client.get(path).json()["progress"]
    assert (told["bound"], told["late"], told["late_writers"]) == (NOON, 9, {"a": 6})
    assert listener.failures == 0
    api.client.delete(path).raise_for_status()
