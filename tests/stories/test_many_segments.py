"""Lists of what has thousands of segments: pages are short, and nothing is left out."""

from collections.abc import Iterator
from typing import Any

import pytest

from controller.http.routing import write_cursor
from tests.conftest import NewServer
from tests.server import Api

NOW = 1_700_000_000_000
SEGMENTS = 5_000
NAMES = [f"n{number}" for number in range(7)]


@pytest.fixture(scope="module")
def api(new_server: NewServer) -> Iterator[Api]:
    with new_server() as server, Api(server.url) as api:
        yield api


def _pages(api: Api, path: str, kind: str, name: str, **query: str) -> list[list[str]]:
    """Read a list to its end; tell what each page has."""
    pages: list[list[str]] = []
    query = {"limit": "1000"} | query
    while True:
        page: Any = api.client.get(path, params=query).raise_for_status().json()
        pages.append([one[name] for one in page[kind]])
        if page["cursor"] is None:
            return pages
        query["cursor"] = page["cursor"]


def test_a_page_of_writers_has_25_000_entries_of_positions_at_most(api: Api) -> None:
    api.create(segments=SEGMENTS)
    everywhere = {str(number): 1 for number in range(SEGMENTS)}
    for name in NAMES:
        api.post(f"writers/{name}/note-time", time=NOW, position=everywhere)
    assert _pages(api, f"{api.path}/writers", "writers", "writer") == [NAMES[:5], NAMES[5:]]


def test_a_page_of_groups_has_25_000_segments_at_most(api: Api) -> None:
    with Api(str(api.client.base_url), "read/one") as read:
        read.create(log="embedded", segments=SEGMENTS)
    for name in NAMES:
        group = {"streams": ["read/one"]}
        api.client.put(f"/v1/reader-groups/read/{name}", json=group).raise_for_status()
    names = [f"read/{name}" for name in NAMES]
    assert _pages(api, "/v1/reader-groups", "groups", "group") == [names[:5], names[5:]]


def test_a_page_of_hundreds_of_streams_has_as_many_as_are_asked_for(api: Api) -> None:
    for number in range(202):
        with Api(str(api.client.base_url), f"zeros/{number:03}") as one:
            one.create()
    query = {"limit": "201", "cursor": write_cursor("zero/z")}
    pages = _pages(api, "/v1/streams", "streams", "stream", **query)
    names = [f"zeros/{number:03}" for number in range(202)]
    assert pages == [names[:201], names[201:]]


def test_a_page_of_streams_has_5_000_segments_at_most_or_one_stream(api: Api) -> None:
    for name, segments in (("a", 3_000), ("b", 2_000), ("c", 5_001), ("d", 4_999), ("e", 1)):
        with Api(str(api.client.base_url), f"wide/{name}") as one:
            one.create(segments=segments)
    query = {"cursor": write_cursor("wid/z")}
    pages = _pages(api, "/v1/streams", "streams", "stream", **query)
    assert pages[:3] == [["wide/a", "wide/b"], ["wide/c"], ["wide/d", "wide/e"]]
