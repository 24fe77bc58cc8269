"""Metrics: complete, bounded, and named as the documentation names them."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from controller.configuration import ServeSettings
from tests.conftest import NewServer
from tests.integration.in_process import in_process
from tests.server import Api, ServerProcess
from tidegauge.wire.events import NDJSON

NOW = 1_700_000_000_000
OPERATIONS = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
Scene = Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]
Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture
def play(database_url: str) -> Callable[..., None]:
    """Run a scene with a client of a new service."""

    async def run(scene: Scene, settings: dict[str, Any]) -> None:
        serving = in_process(ServeSettings(database_url=database_url, **settings))
        async with serving as (_, client):
            await scene(client)

    return lambda scene, **settings: asyncio.run(run(scene, settings))


async def _create(client: httpx.AsyncClient, stream: str = "one", **settings: Any) -> None:
    wanted = {"log": "external", "segments": 1, "mark_interval_ms": 0} | settings
    (await client.put(f"/v1/streams/tests/{stream}", json=wanted)).raise_for_status()


async def _note(client: httpx.AsyncClient, stream: str, writer: str, time: Any) -> None:
    path = f"/v1/streams/tests/{stream}/writers/{writer}/note-time"
    await client.post(path, json={"time": time, "position": {}})


async def _families(client: httpx.AsyncClient) -> list[Metric]:
    text = (await client.get("/metrics")).raise_for_status().text
    return list(text_string_to_metric_families(text))


def _samples(families: list[Metric]) -> Samples:
    found: Samples = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = (
                sample.value
            )
    return found


async def _scrape(client: httpx.AsyncClient) -> Samples:
    return _samples(await _families(client))


async def _outcomes(client: httpx.AsyncClient) -> dict[str, float]:
    counted = (await _scrape(client))["tidegauge_reports_total"]
    return {outcome: count for (((_, outcome),), count) in counted.items()}


def _of(stream: str, **labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({"stream": f"tests/{stream}", **labels}.items()))


def test_reports_are_counted_by_outcome(play: Callable[..., None]) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        await _create(client)
        for time in (NOW, NOW - 1, 1.5):
            await _note(client, "one", "w", time)
        reports = [{"stream": "tests/one", "writer": "w", "time": at} for at in (NOW, NOW - 9)]
        bulk = [one | {"position": {}} for one in reports]
        await client.post("/v1/note-times", json={"reports": bulk})
        assert (await _scrape(client))["tidegauge_reports_total"] == {
            (("outcome", "accepted"),): 2,
            (("outcome", "invalid_request"),): 1,
            (("outcome", "invalid_time"),): 2,
        }

    play(scene)


def test_who_sends_no_report_is_counted_with_none(play: Callable[..., None]) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        await _create(client)
        for method in ("GET", "HEAD", "PUT"):
            for path in ("/v1/note-times", f"{ONE}/writers/w/note-time"):
                assert (await client.request(method, path)).status_code == 405
        assert await _outcomes(client) == {"accepted": 0}

    play(scene)


ONE = "/v1/streams/tests/one"
NONE = "/v1/streams/tests/none"
REPORT = {"time": NOW, "position": {}}
LINE = {"content": '{"key": "k", "value": "v"}\n', "headers": {"content-type": NDJSON}}


@pytest.mark.only_on("sqlite", "what is counted is decided before any database")
@pytest.mark.parametrize(
    ("path", "call", "status", "counted"),
    [
        ("writers/w/note-time", {"json": REPORT}, 200, {"accepted": 1}),
        ("writers/w/note-time", {"json": REPORT | {"time": NOW - 9}}, 409, {"invalid_time": 1}),
        ("writers/w/note-time", {"json": REPORT | {"time": 1.5}}, 422, {"invalid_request": 1}),
        ("writers/w/register", {"json": {"time": NOW}}, 200, {"accepted": 1}),
        ("writers/w/register", {"json": {"time": 2**53}}, 409, {"time_in_future": 1}),
        ("writers/w/register", {"json": {"time": 1.5}}, 422, {"invalid_request": 1}),
        ("writers/w/register?a=1", {"json": {"time": NOW}}, 422, {"invalid_request": 1}),
        ("writers/w/leave", {"json": REPORT}, 200, {"accepted": 1}),
        ("writers/w/leave", {"json": {"time": NOW - 9}}, 409, {"invalid_time": 1}),
        ("writers/w/leave", {"json": {"time": 1.5}}, 422, {"invalid_request": 1}),
        (f"events?writer=w&note_time={NOW}", LINE, 200, {"accepted": 1}),
        (f"events?writer=w&note_time={NOW - 9}", LINE, 409, {"invalid_time": 1}),
        ("events?writer=w&note_time=soon", LINE, 422, {"invalid_request": 1}),
        (f"events?note_time={NOW}", LINE, 422, {"invalid_request": 1}),
        (f"events?writer=w&note_time={NOW}", {}, 415, {"unsupported_media_type": 1}),
        ("writers/w/register", {}, 200, {}),
        ("writers/w/register", {"json": {"time": None}}, 200, {}),
        ("writers/w/leave", {}, 200, {}),
        ("writers/none/leave", {}, 404, {}),
        ("events?writer=w", LINE, 200, {}),
        ("events", LINE | {"content": '{"time": 5}'}, 422, {}),
        ("writers/w/expire", {}, 200, {}),
    ],
)
def test_every_way_to_report_moves_one_counter_and_nothing_else_does(
    play: Callable[..., None], path: str, call: Any, status: int, counted: dict[str, int]
) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        await _create(client, log="embedded")
        await _note(client, "one", "w", NOW)
        assert (await client.post(f"{ONE}/{path}", **call)).status_code == status
        expected = {"accepted": 1.0}
        for outcome, count in counted.items():
            expected[outcome] = expected.get(outcome, 0) + count
        assert await _outcomes(client) == expected

    play(scene)


@pytest.mark.only_on("sqlite", "what is counted is decided before any database")
@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("writers/w/note-time", {"json": REPORT}),
        ("writers/w/register", {"json": {"time": NOW}}),
        ("writers/w/leave", {"json": {"time": NOW}}),
        (f"events?writer=w&note_time={NOW}", LINE),
    ],
)
def test_reports_about_a_stream_that_is_not_there_count_by_its_code(
    play: Callable[..., None], path: str, call: Any
) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        assert (await client.post(f"{NONE}/{path}", **call)).status_code == 404
        assert await _outcomes(client) == {"accepted": 0, "unknown_stream": 1}

    play(scene)


@pytest.mark.only_on("sqlite", "only a file's size is bounded by the service")
def test_reports_that_cannot_be_stored_count_as_unavailable_each(
    new_server: NewServer,
) -> None:
    full = new_server(max_database_bytes=300_000)
    with full as server, Api(server.url) as api:
        api.create()
        names = [f"{number}-{'x' * 200}" for number in range(2_000)]
        reports = [{"stream": "tests/one", "writer": name, **REPORT} for name in names]
        answer = api.client.post("/v1/note-times", json={"reports": reports})
        assert answer.status_code == 503
        assert 'reports_total{outcome="unavailable"} 2000.0\n' in server.metrics()


def test_writers_are_counted_by_state_of_each_stream_and_of_all(
    play: Callable[..., None],
) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for stream in ("one", "two"):
            await _create(client, stream)
            await _note(client, stream, "slow", NOW)
            await _note(client, stream, "quick", NOW + 5_000)
        writers = "/v1/streams/tests/one/writers"
        await client.post(f"{writers}/new/register")
        for gone in ("left", "expired"):
            await _note(client, "one", gone, NOW)
            call = {"left": "leave", "expired": "expire"}[gone]
            (await client.post(f"{writers}/{gone}/{call}", json={})).raise_for_status()
        shown = await _scrape(client)
        of_one = dict.fromkeys(("joining", "active", "behind", "expired", "left"), 1)
        of_two = of_one | {"joining": 0, "expired": 0, "left": 0}
        assert shown["tidegauge_stream_writers"] == {
            **{_of("one", state=state): count for state, count in of_one.items()},
            **{_of("two", state=state): count for state, count in of_two.items()},
        }
        assert shown["tidegauge_writers"] == {
            (("state", "joining"),): 1,
            (("state", "active"),): 2,
            (("state", "behind"),): 2,
            (("state", "expired"),): 1,
            (("state", "left"),): 1,
        }

    play(scene)


def test_writers_that_expire_are_counted_with_their_stream(play: Callable[..., None]) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for stream in ("calm", "lossy"):
            await _create(client, stream, aggregation_timeout_ms=100)
        await _note(client, "lossy", "silent", NOW)
        async with asyncio.timeout(20):
            at = NOW
            while not (await _scrape(client))["tidegauge_expirations_total"][()]:
                at += 1
                await _note(client, "lossy", "quick", at)
        counted = (await _scrape(client))["tidegauge_stream_expirations_total"]
        assert counted == {_of("calm"): 0, _of("lossy"): 1}

    play(scene)


def test_lag_is_wall_clock_minus_watermark_where_times_are_wall_clock(
    play: Callable[..., None],
) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        await _create(client, "timed")
        await _create(client, "silent")
        await _create(client, "logical", max_future_skew_ms=None)
        await _create(client, "sealed")
        for stream in ("timed", "logical", "sealed"):
            await _note(client, stream, "w", NOW)
        seal = await client.post("/v1/streams/tests/sealed/seal", json={"position": {"0": 0}})
        seal.raise_for_status()
        lags = (await _scrape(client))["tidegauge_stream_watermark_lag_seconds"]
        assert lags.keys() == {_of("timed")}
        assert lags[_of("timed")] > 90_000_000

    play(scene)


def test_only_a_stream_in_which_somebody_waits_is_held(play: Callable[..., None]) -> None:
    """Nobody has to be woken for one that is quiet, that all have left, or that is sealed."""

    async def scene(client: httpx.AsyncClient) -> None:
        for stream in ("held", "quiet", "left", "sealed"):
            await _create(client, stream, aggregation_timeout_ms=None)
            for writer in ("slow", "quick"):
                await _note(client, stream, writer, NOW)
        await _note(client, "held", "quick", NOW + 5_000)
        for writer in ("slow", "quick"):
            left = f"/v1/streams/tests/left/writers/{writer}/leave"
            (await client.post(left, json={})).raise_for_status()
        seal = await client.post("/v1/streams/tests/sealed/seal", json={"position": {"0": 0}})
        seal.raise_for_status()
        async with asyncio.timeout(20):
            while not (held := await _held(client))[_of("held")]:  # noqa: ASYNC110 (no event)
                await asyncio.sleep(0.01)
        assert held == {
            _of("held"): held[_of("held")],
            _of("quiet"): 0,
            _of("left"): 0,
            _of("sealed"): 0,
        }
        await _note(client, "held", "slow", NOW + 5_000)
        assert (await _held(client))[_of("held")] == 0

    play(scene)


async def _held(client: httpx.AsyncClient) -> dict[tuple[tuple[str, str], ...], float]:
    return (await _scrape(client))["tidegauge_stream_held_seconds"]


def test_a_controller_that_is_alone_holds_every_lease(play: Callable[..., None]) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for stream in ("one", "two"):
            await _create(client, stream)
        shown = await _scrape(client)
        assert shown["tidegauge_stream_lease_held"] == {_of("one"): 1, _of("two"): 1}
        assert shown["tidegauge_leases_held"] == {(): 2}

    play(scene)


def test_marks_passes_batches_and_commits_are_counted(play: Callable[..., None]) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        await _create(client)
        await asyncio.gather(
            *(_note(client, "one", f"writer-{number}", NOW) for number in range(50))
        )
        await _note(client, "one", "writer-0", NOW + 5_000)
        shown = await _scrape(client)
        assert shown["tidegauge_marks_total"] == {(): 1}
        passes = shown["tidegauge_pass_duration_seconds_count"][()]
        batches = shown["tidegauge_batch_changes_count"][()]
        assert 2 <= passes <= batches <= 53
        assert shown["tidegauge_batch_changes_sum"][()] >= 52
        assert shown["tidegauge_commit_duration_seconds_count"][()] == batches
        assert shown["tidegauge_commit_failures_total"] == {(): 0}
        assert shown["tidegauge_queue_length"] == {
            (("queue", "changes"),): 0,
            (("queue", "looks"),): 0,
        }

    play(scene)


def test_answers_are_timed_by_template_of_their_route_and_class_of_status(
    play: Callable[..., None],
) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        await _create(client)
        for number in range(20):
            await _note(client, "one", f"writer-{number}", NOW)
            await client.get(f"/v1/streams/tests/none-{number}")
            await client.get(f"/nonsense/{number}")
        await _note(client, "one", "w", "nonsense")
        shown = await _scrape(client)
        stream = "/v1/streams/{scope}/{stream}"
        assert shown["tidegauge_http_request_duration_seconds_count"] == {
            _answer(f"{stream}/writers/{{writer}}/note-time", "2xx"): 20,
            _answer(f"{stream}/writers/{{writer}}/note-time", "4xx"): 1,
            _answer(stream, "2xx"): 1,
            _answer(stream, "4xx"): 20,
            _answer("other", "4xx"): 20,
        }
        again = await _scrape(client)
        counts = again["tidegauge_http_request_duration_seconds_count"]
        assert counts[_answer("/metrics", "2xx")] == 1

    play(scene)


async def _three_wait(client: httpx.AsyncClient) -> bool:
    return (await _scrape(client))["tidegauge_long_polls"] == {(): 3}


def test_waiting_is_no_latency_and_who_waits_is_counted(play: Callable[..., None]) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        await _create(client)
        path = "/v1/streams/tests/one/marks"
        polls = [
            asyncio.create_task(client.get(path, params={"wait_ms": 20_000})) for _ in range(3)
        ]
        async with asyncio.timeout(20):
            while not await _three_wait(client):  # noqa: ASYNC110 (no event)
                await asyncio.sleep(0.01)
        await _note(client, "one", "w", NOW)
        for answer in await asyncio.gather(*polls):
            assert len(answer.json()["marks"]) == 1
        shown = await _scrape(client)
        assert shown["tidegauge_long_polls"] == {(): 0}
        route = _answer("/v1/streams/{scope}/{stream}/marks", "2xx")
        assert shown["tidegauge_http_long_poll_duration_seconds_count"] == {route: 3}
        assert route not in shown["tidegauge_http_request_duration_seconds_count"]

    play(scene)


def test_only_so_many_streams_have_series_the_latest_of_the_live_ones_first(
    play: Callable[..., None],
) -> None:
    async def scene(client: httpx.AsyncClient) -> None:
        for number in range(4):
            await _create(client, f"lag-{number}")
            await _note(client, f"lag-{number}", "w", NOW - number * 1_000)
        left = "/v1/streams/tests/lag-3/writers/w/leave"
        (await client.post(left, json={})).raise_for_status()
        await _create(client, "empty")
        shown = await _scrape(client)
        lags = shown["tidegauge_stream_watermark_lag_seconds"]
        assert lags.keys() == {_of("lag-2"), _of("lag-1")}
        assert shown["tidegauge_stream_kept_reports"].keys() == lags.keys()
        assert shown["tidegauge_streams_without_series"] == {(): 3}
        assert shown["tidegauge_streams"] == {(): 5}
        assert shown["tidegauge_writers"][("state", "active"),] == 3

    play(scene, metrics_streams=2)


@pytest.fixture
def api(shared_server: ServerProcess) -> Iterator[Api]:
    with Api(shared_server.url, "tests/metrics") as calls:
        yield calls


def test_names_follow_the_conventions_and_are_documented(api: Api) -> None:
    api.create()
    api.note("w", NOW)
    documented = set(re.findall(r"`(tidegauge_\w+)`", OPERATIONS.read_text()))
    shown = set()
    for family in text_string_to_metric_families(api.client.get("/metrics").text):
        if family.name.startswith("process_"):
            continue
        assert family.documentation.endswith("."), family.name
        assert family.type in {"counter", "gauge", "histogram"}
        if family.type == "histogram" and family.name != "tidegauge_batch_changes":
            assert family.name.endswith("_seconds")
        shown.add(family.name + "_total" if family.type == "counter" else family.name)
    assert shown == documented


def _answer(route: str, status: str) -> tuple[tuple[str, str], ...]:
    return ("route", route), ("status", status)
