"""Lists of streams say of each what its description says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import NewServer
from tests.postgres import Cluster
from tests.server import Api, ServerProcess
from tests.service.controllers import NOW, create, note
from tidegauge.names import StreamName

NAMES = ["a/Z", "a/a", "a-b/written", "b/external", "b/new", "b/sealed"]
LINES = "\n".join(f'{{"key": "k{at}", "event_time": {NOW}, "value": "v"}}' for at in range(9))


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[ServerProcess]:
    """A service with streams that are written, external, new and sealed."""
    with new_server() as running:
        url = running.url
        for name in NAMES:
            log = "external" if name == "b/external" else "embedded"
            create(url, name, log=log, segments=3)
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


def test_a_list_says_what_the_descriptions_say(server: ServerProcess) -> None:
    listed = httpx.get(f"{server.url}/v1/streams").raise_for_status().json()["streams"]
    assert [one["stream"] for one in listed] == sorted(NAMES, key=StreamName.parse)
    assert listed == [_described(server.url, one["stream"]) for one in listed]
    by_name = {one["stream"]: one for one in listed}
    assert sum(by_name["a-b/written"]["tail"].values()) == 18
    assert by_name["a/a"]["tail"] == {"0": 0, "1": 0, "2": 0}
    assert (by_name["a/a"]["watermark"], by_name["a/a"]["revision"]) == (None, 0)
    external = by_name["b/external"]
    assert (external["watermark"], external["tail"]) == (NOW + 2, None)
    assert [name for name, one in by_name.items() if one["final"]] == ["b/sealed"]


def test_each_stream_of_a_list_is_explained_on_whatever_page(server: ServerProcess) -> None:
    for brief in ("true", "false"):
        asked = {"explain": "true", "brief": brief}
        answer = httpx.get(f"{server.url}/v1/streams", params=asked).raise_for_status()
        listed = answer.json()["streams"]
        reasons = {one["stream"]: one["explanation"]["reason"] for one in listed}
        assert reasons == dict.fromkeys(NAMES, "no_writers") | {
            "b/external": "caught_up",
            "b/sealed": "sealed",
        }
    page = httpx.get(f"{server.url}/v1/streams", params=asked | {"limit": "2"}).json()
    more = asked | {"limit": "2", "cursor": page["cursor"]}
    following = httpx.get(f"{server.url}/v1/streams", params=more).json()["streams"]
    names = [one["stream"] for one in listed]
    assert [one["stream"] for one in following] == names[2:4]
    assert all(one["explanation"] for one in [*page["streams"], *following])
    front = httpx.get(f"{server.url}/").raise_for_status().json()["streams"]
    states = {one["stream"]: one["state"].split(" for ")[0] for one in front}
    assert states.pop("b/external") in {"late", "quiet"}  # its times are of long ago
    assert states.pop("b/sealed") == "ended"
    assert set(states.values()) == {"unused"}
    assert front[-1]["stream"] == "b/sealed"  # trouble comes first


def test_partitions_may_have_great_numbers(cluster: Cluster, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, database_url=cluster.database()) as server:
        with Api(server.url) as api:
            api.create(max_segments=2)
            api.post("writers/w/note-time", time=NOW, position={str(2**63 - 1): 3})
        listed = httpx.get(f"{server.url}/v1/streams").raise_for_status().json()["streams"]
        assert [one["number"] for one in listed[0]["topology"]["segments"]] == [0, 2**63 - 1]
