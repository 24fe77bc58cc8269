"""Metrics: complete, bounded, and named as the documentation names them."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from controller.configuration import ServeSettings
from tests.patience import wait_until
from tests.service.in_process import Service, called_in_process
from tidegauge.wire.events import NDJSON

NOW = 1_700_000_000_000
OPERATIONS = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
REPORT = {"time": NOW, "position": {}}
MANY = "/v1/note-times"
Samples = dict[str, dict[str, float]]
"""By name without its prefix, and by the values of its labels in the order of their names."""


@pytest.fixture
def client(database_url: str) -> Iterator[httpx.Client]:
    with called_in_process(ServeSettings(database_url=database_url)) as one:
        yield one


@pytest.fixture(scope="module")
def used(service: Service) -> Iterator[httpx.Client]:
    """A client of a service that several tests use."""
    with httpx.Client(transport=service, base_url=service.url) as client:
        yield client


def _create(client: httpx.Client, stream: str = "one", **settings: Any) -> None:
    wanted = {"log": "external", "segments": 1, "mark_interval_ms": 0} | settings
    client.put(f"/v1/streams/tests/{stream}", json=wanted).raise_for_status()


def _note(client: httpx.Client, stream: str, writer: str, time: Any) -> None:
    path = f"/v1/streams/tests/{stream}/writers/{writer}/note-time"
    client.post(path, json={"time": time, "position": {}})


def _families(client: httpx.Client) -> list[Metric]:
    text = client.get("/metrics").raise_for_status().text
    return list(text_string_to_metric_families(text))


def _scrape(client: httpx.Client) -> Samples:
    samples: Samples = {}
    for family in _families(client):
        for name, labels, value, *_ in family.samples:
            values = " ".join(labels[label] for label in sorted(labels))
            samples.setdefault(name.removeprefix("tidegauge_"), {})[values] = value
    return samples


def _outcomes(client: httpx.Client) -> Counter[str]:
    counted = _scrape(client)["reports_total"]
    return Counter({outcome: int(count) for outcome, count in counted.items()})


def _bulk(*times: int) -> dict[str, Any]:
    return {
        "json": {
            "reports": [
                {"stream": "tests/one", "writer": "w", "time": one, "position": {}}
                for one in times
            ]
        }
    }


NOTE, REGISTER, LEAVE = (f"one/writers/w/{call}" for call in ("note-time", "register", "leave"))
LARGE = {"content": [b" " * 2**24] * 3, "headers": {"content-type": "application/json"}}
GZIPPED = {"json": {}, "headers": {"content-encoding": "gzip"}}
LINE = {"content": '{"key": "k", "value": "v"}\n', "headers": {"content-type": NDJSON}}


@pytest.mark.only_on("sqlite", "what is counted is decided before any database")
@pytest.mark.parametrize(
    ("path", "call", "status", "counted"),
    [
        (NOTE, {"json": REPORT}, 200, {"accepted": 1}),
        (NOTE, {"json": REPORT | {"time": NOW - 9}}, 409, {"invalid_time": 1}),
        (NOTE, {"json": REPORT | {"time": 1.5}}, 422, {"invalid_request": 1}),
        (REGISTER, {"json": {"time": NOW}}, 200, {"accepted": 1}),
        (REGISTER, {"json": {"time": 2**53}}, 409, {"time_in_future": 1}),
        (REGISTER, {"json": {"time": 1.5}}, 422, {"invalid_request": 1}),
        (f"{REGISTER}?a=1", {"json": {"time": NOW}}, 422, {"invalid_request": 1}),
        (LEAVE, {"json": REPORT}, 200, {"accepted": 1}),
        (LEAVE, {"json": {"time": NOW - 9}}, 409, {"invalid_time": 1}),
        (LEAVE, {"json": {"time": 1.5}}, 422, {"invalid_request": 1}),
        (f"one/events?writer=w&note_time={NOW}", LINE, 200, {"accepted": 1}),
        (f"one/events?writer=w&note_time={NOW - 9}", LINE, 409, {"invalid_time": 1}),
        ("one/events?writer=w&note_time=soon", LINE, 422, {"invalid_request": 1}),
        (f"one/events?note_time={NOW}", LINE, 422, {"invalid_request": 1}),
        (f"one/events?writer=w&note_time={NOW}", {}, 415, {"unsupported_media_type": 1}),
        (MANY, _bulk(NOW, NOW - 9), 200, {"accepted": 1, "invalid_time": 1}),
        (MANY, {"json": {"reports": [None], "x": 1}}, 422, {"invalid_request": 1}),
        (MANY, {"content": b"{}"}, 415, {"unsupported_media_type": 1}),
        (MANY, GZIPPED, 415, {"unsupported_content_encoding": 1}),
        (MANY, LARGE, 413, {"body_too_large": 1}),
        (REGISTER, {}, 200, {}),
        (LEAVE, {}, 200, {}),
        ("one/writers/none/leave", {}, 404, {}),
        ("one/events?writer=w", LINE, 200, {}),
        ("one/events", LINE | {"content": '{"time": 5}'}, 422, {}),
        ("one/writers/w/expire", {}, 200, {}),
        ("none/writers/w/note-time", {"json": REPORT}, 404, {"unknown_stream": 1}),
        ("none/writers/w/register", {"json": {"time": NOW}}, 404, {"unknown_stream": 1}),
        ("none/writers/w/leave", {"json": {"time": NOW}}, 404, {"unknown_stream": 1}),
        (f"none/events?writer=w&note_time={NOW}", LINE, 404, {"unknown_stream": 1}),
        (NOTE, {"method": "GET"}, 405, {}),
        (MANY, {"method": "PUT"}, 405, {}),
    ],
)
def test_every_way_to_report_moves_one_counter_and_nothing_else_does(
    used: httpx.Client, path: str, call: Any, status: int, counted: dict[str, int]
) -> None:
    used.delete("/v1/streams/tests/one")
    _create(used, log="embedded")
    _note(used, "one", "w", NOW)
    before = _outcomes(used)
    url = httpx.URL("http://localhost/v1/streams/tests/").join(path)
    assert used.request(**{"method": "POST", "url": url} | call).status_code == status
    assert _outcomes(used) - before == Counter(counted)


def test_writers_are_counted_by_state_of_each_stream_and_of_all(client: httpx.Client) -> None:
    for stream in ("one", "two"):
        _create(client, stream)
        _note(client, stream, "slow", NOW)
        _note(client, stream, "quick", NOW + 5_000)
    writers = "/v1/streams/tests/one/writers"
    client.post(f"{writers}/new/register")
    for gone in ("left", "expired"):
        _note(client, "one", gone, NOW)
        call = {"left": "leave", "expired": "expire"}[gone]
        client.post(f"{writers}/{gone}/{call}", json={}).raise_for_status()
    shown = _scrape(client)
    of_one = dict.fromkeys(("joining", "active", "behind", "expired", "left"), 1)
    of_two = of_one | {"joining": 0, "expired": 0, "left": 0}
    assert shown["stream_writers"] == {
        **{f"{state} tests/one": count for state, count in of_one.items()},
        **{f"{state} tests/two": count for state, count in of_two.items()},
    }
    assert shown["writers"] == {state: of_one[state] + of_two[state] for state in of_one}


def test_writers_that_expire_are_counted_with_their_stream(client: httpx.Client) -> None:
    for stream in ("calm", "lossy"):
        _create(client, stream, aggregation_timeout_ms=100)
    _note(client, "lossy", "silent", NOW)
    times = itertools.count(NOW + 1)

    def is_expired() -> bool:
        _note(client, "lossy", "quick", next(times))
        return bool(_scrape(client)["expirations_total"][""])

    wait_until(is_expired)
    counted = _scrape(client)["stream_expirations_total"]
    assert counted == {"tests/calm": 0, "tests/lossy": 1}


def test_lag_is_wall_clock_minus_watermark_where_times_are_wall_clock(
    client: httpx.Client,
) -> None:
    _create(client, "timed")
    _create(client, "silent")
    _create(client, "logical", max_future_skew_ms=None)
    _create(client, "sealed")
    for stream in ("timed", "logical", "sealed"):
        _note(client, stream, "w", NOW)
    seal = client.post("/v1/streams/tests/sealed/seal", json={"position": {"0": 0}})
    seal.raise_for_status()
    lags = _scrape(client)["stream_watermark_lag_seconds"]
    assert lags.keys() == {"tests/timed"}
    assert lags["tests/timed"] > 90_000_000


def test_only_a_stream_in_which_somebody_waits_is_held(client: httpx.Client) -> None:
    """Nobody has to be woken for one that is quiet or silent, that all have left, or that is sealed."""

    for stream in ("held", "silent", "quiet", "left", "sealed"):
        _create(client, stream, aggregation_timeout_ms=100 if stream == "silent" else None)
        for writer in ("slow", "quick"):
            _note(client, stream, writer, NOW)
    _note(client, "held", "quick", NOW + 5_000)
    for writer in ("slow", "quick"):
        left = f"/v1/streams/tests/left/writers/{writer}/leave"
        client.post(left, json={}).raise_for_status()
    seal = client.post("/v1/streams/tests/sealed/seal", json={"position": {"0": 0}})
    seal.raise_for_status()
    wait_until(lambda: _held(client)["tests/held"] > 0)
    wait_until(lambda: _held(client, "silent")["tests/silent"] > 0)
    for what in ("held", "silent"):
        durations = _held(client, what)
        assert len(durations) == 5
        assert [stream for stream, held_s in durations.items() if held_s] == [f"tests/{what}"]
    _note(client, "held", "slow", NOW + 5_000)
    assert _held(client)["tests/held"] == 0


def _held(client: httpx.Client, what: str = "held") -> dict[str, float]:
    return _scrape(client)[f"stream_{what}_seconds"]


def test_states_that_no_other_figure_shows_have_a_series_each(client: httpx.Client) -> None:
    _create(client, "odd")
    _note(client, "odd", "w", 1_700_000_000)  # seconds
    _create(client, "few", min_writers=2)
    _note(client, "few", "w", NOW)
    _create(client, "left", log="embedded")
    _note(client, "left", "w", NOW)
    client.post("/v1/streams/tests/left/writers/w/leave", json={}).raise_for_status()
    states = _scrape(client)["stream_state"]
    assert {name for name, value in states.items() if value} == {
        "odd_times tests/odd",
        "too_few_writers tests/few",
        "no_live_writer tests/left",
    }
    assert len(states) == 9


def test_marks_passes_batches_and_commits_are_counted(client: httpx.Client) -> None:
    _create(client)
    with ThreadPoolExecutor() as threads:
        for number in range(50):
            threads.submit(_note, client, "one", f"writer-{number}", NOW)
    _note(client, "one", "writer-0", NOW + 5_000)
    shown = _scrape(client)
    assert shown["holds_database"] == {"": 1}
    assert shown["marks_total"] == {"": 1}
    passes = shown["pass_duration_seconds_count"][""]
    batches = shown["batch_changes_count"][""]
    assert 2 <= passes <= batches <= 53
    assert shown["batch_changes_sum"][""] >= 52
    assert shown["commit_duration_seconds_count"][""] == batches
    assert shown["commit_failures_total"] == {"": 0}
    assert shown["queue_length"] == {
        "changes": 0,
        "reads": 0,
    }


def test_answers_are_timed_by_template_of_their_route_and_class_of_status(
    client: httpx.Client,
) -> None:
    _create(client)
    for number in range(20):
        _note(client, "one", f"writer-{number}", NOW)
        client.get(f"/v1/streams/tests/none-{number}")
        client.get(f"/nonsense/{number}")
    _note(client, "one", "w", "nonsense")
    shown = _scrape(client)
    stream = "/v1/streams/{scope}/{stream}"
    assert shown["http_request_duration_seconds_count"] == {
        f"{stream}/writers/{{writer}}/note-time 2xx": 20,
        f"{stream}/writers/{{writer}}/note-time 4xx": 1,
        f"{stream} 2xx": 1,
        f"{stream} 4xx": 20,
        "other 4xx": 20,
    }
    again = _scrape(client)
    counts = again["http_request_duration_seconds_count"]
    assert counts["/metrics 2xx"] == 1


def test_waiting_is_no_latency_and_who_waits_is_counted_until_its_mark_comes(
    client: httpx.Client,
) -> None:
    _create(client)
    path = "/v1/streams/tests/one/marks"
    with ThreadPoolExecutor() as threads:
        later, *sooner = (
            threads.submit(client.get, path, params={"after": after, "wait_ms": 20_000})
            for after in (1, 0, 0)
        )
        wait_until(lambda: _scrape(client)["long_polls"] == {"": 3})
        _note(client, "one", "w", NOW)
        assert [len(poll.result().json()["marks"]) for poll in sooner] == [1, 1]
        assert not later.done()  # though it asked first
        _note(client, "one", "w", NOW + 5_000)
        assert [mark["lower"] for mark in later.result().json()["marks"]] == [NOW + 5_000]
    shown = _scrape(client)
    assert shown["long_polls"] == {"": 0}
    route = "/v1/streams/{scope}/{stream}/marks 2xx"
    assert shown["http_long_poll_duration_seconds_count"] == {route: 3}
    assert route not in shown["http_request_duration_seconds_count"]


def test_only_so_many_streams_have_series_the_latest_of_the_live_ones_first(
    database_url: str,
) -> None:
    settings = ServeSettings(database_url=database_url, metrics_streams=2)
    with called_in_process(settings) as client:
        for number in range(4):
            _create(client, f"lag-{number}")
            _note(client, f"lag-{number}", "w", NOW - number * 1_000)
        left = "/v1/streams/tests/lag-3/writers/w/leave"
        client.post(left, json={}).raise_for_status()
        _create(client, "empty")
        shown = _scrape(client)
        lags = shown["stream_watermark_lag_seconds"]
        assert lags.keys() == {"tests/lag-2", "tests/lag-1"}
        assert shown["stream_kept_reports"].keys() == lags.keys()
        assert shown["streams_without_series"] == {"": 3}
        assert shown["streams"] == {"": 5}
        assert shown["writers"]["active"] == 3


def test_names_follow_the_conventions_and_are_documented(client: httpx.Client) -> None:
    _create(client)
    _note(client, "one", "w", NOW)
    documented = set(re.findall(r"`(tidegauge_\w+)`", OPERATIONS.read_text()))
    shown = set()
    for family in _families(client):
        if family.name.startswith("process_"):
            continue
        assert family.documentation.endswith("."), family.name
        assert family.type in {"counter", "gauge", "histogram"}
        if family.type == "histogram" and family.name != "tidegauge_batch_changes":
            assert family.name.endswith("_seconds")
        shown.add(family.name + "_total" if family.type == "counter" else family.name)
    assert shown == documented
