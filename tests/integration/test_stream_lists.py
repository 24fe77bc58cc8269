"""Lists of streams that several controllers hold: what each says of its own, in few queries."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, event

from controller.database.interface import DatabaseAddress
from controller.store.overview import read_overview
from tests.integration.controllers import NOW, Controllers, controllers, create, note
from tests.patience import wait_until
from tests.postgres import Cluster
from tests.server import Api, ServerProcess
from tidegauge.names import StreamName

NAMES = ["a/Z", "a/a", "a-b/written", "b/external", "b/new", "b/sealed"]
LINES = "\n".join(f'{{"key": "k{at}", "event_time": {NOW}, "value": "v"}}' for at in range(9))


@pytest.fixture(scope="module")
def two(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    """Each holds half of streams that are written, external, new and sealed."""
    with controllers(cluster, tmp_path_factory.mktemp("overviews"), 2) as running:
        url = running.servers[0].url
        for name in NAMES:
            log = "external" if name == "b/external" else "embedded"
            create(url, name, log=log, segments=3)
        wait_until(lambda: running.held() == [3, 3, 0])
        for name in ("a-b/written", "b/sealed"):
            for _ in range(2):
                httpx.post(
                    f"{url}/v1/streams/{name}/events",
                    content=LINES,
                    headers={"content-type": "application/x-ndjson"},
                ).raise_for_status()
        for at in (1, 2):
            note(url, "b/external", at).raise_for_status()
        httpx.post(f"{url}/v1/streams/b/sealed/seal").raise_for_status()
        yield running


def _described(url: str, name: str) -> Any:
    return httpx.get(f"{url}/v1/streams/{name}").raise_for_status().json()


def test_every_controller_lists_what_the_holders_say(two: Controllers) -> None:
    for server in two.servers:
        listed = httpx.get(f"{server.url}/v1/streams").raise_for_status().json()["streams"]
        assert [one["stream"] for one in listed] == sorted(NAMES, key=StreamName.parse)
        assert listed == [_described(server.url, one["stream"]) for one in listed]
        by_name = {one["stream"]: one for one in listed}
        assert sum(by_name["a-b/written"]["tail"].values()) == 18
        assert by_name["a/a"]["tail"] == {"0": 0, "1": 0, "2": 0}
        assert (by_name["a/a"]["watermark"], by_name["a/a"]["revision"]) == (None, 0)
        assert (by_name["b/external"]["watermark"], by_name["b/external"]["tail"]) == (
            NOW + 2,
            None,
        )
        assert [name for name, one in by_name.items() if one["final"]] == ["b/sealed"]


def test_every_controller_explains_streams_that_another_one_holds(two: Controllers) -> None:
    for server in two.servers:
        for brief in ("true", "false"):
            asked = {"explain": "true", "brief": brief}
            answer = httpx.get(f"{server.url}/v1/streams", params=asked).raise_for_status()
            listed = answer.json()["streams"]
            assert [one["stream"] for one in listed] == sorted(NAMES, key=StreamName.parse)
            reasons = {one["stream"]: one["explanation"]["reason"] for one in listed}
            assert reasons == dict.fromkeys(NAMES, "no_writers") | {
                "b/external": "caught_up",
                "b/sealed": "sealed",
            }
        page = httpx.get(f"{server.url}/v1/streams", params=asked | {"limit": "2"}).json()
        assert all(one["explanation"] for one in page["streams"])
        more = asked | {"limit": "2", "cursor": page["cursor"]}
        following = httpx.get(f"{server.url}/v1/streams", params=more).json()["streams"]
        names = [one["stream"] for one in listed]
        assert [one["stream"] for one in following] == names[2:4]
        assert all(one["explanation"] for one in following)
        front = httpx.get(f"{server.url}/").raise_for_status().json()["streams"]
        states = {one["stream"]: one["state"].split(" for ")[0] for one in front}
        assert states.pop("b/external") in {"late", "quiet"}  # its times are of long ago
        assert states.pop("b/sealed") == "ended"
        assert set(states.values()) == {"unused"}
        assert front[-1]["stream"] == "b/sealed"  # trouble comes first


def test_a_holder_that_does_not_answer_leaves_its_streams_without_an_explanation(
    two: Controllers,
) -> None:
    paused = two.holder_of("a/Z")
    asked = next(one for one in two.servers if one is not paused)
    paused.process.send_signal(signal.SIGSTOP)
    try:
        answer = httpx.get(
            f"{asked.url}/v1/streams", params={"explain": "true", "brief": "true"}, timeout=20
        ).raise_for_status()
    finally:
        paused.process.send_signal(signal.SIGCONT)
    listed = {one["stream"]: one["explanation"] for one in answer.json()["streams"]}
    assert listed.keys() == set(NAMES)
    unknown = {name for name, explanation in listed.items() if explanation is None}
    assert unknown == {name for name in NAMES if two.holder_of(name) is paused}


def test_partitions_may_have_great_numbers(cluster: Cluster, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, database_url=cluster.database()) as server:
        with Api(server.url) as api:
            api.create(max_segments=2)
            api.post("writers/w/note-time", time=NOW, position={str(2**63 - 1): 3})
        listed = httpx.get(f"{server.url}/v1/streams").raise_for_status().json()["streams"]
        assert [one["number"] for one in listed[0]["topology"]["segments"]] == [0, 2**63 - 1]


def test_a_page_takes_as_many_queries_as_one_stream(two: Controllers) -> None:
    engine = create_engine(DatabaseAddress.parse(two.database_url).url)
    statements: list[object] = []
    event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    taken = []
    with engine.connect() as connection:
        for names in (NAMES[:1], NAMES, [*NAMES, "b/unknown"]):
            statements.clear()
            found = read_overview(connection, [StreamName.parse(one) for one in names])
            taken.append((len(found), len(statements)))
    engine.dispose()
    assert taken == [(1, 2), (6, 2), (6, 2)]
