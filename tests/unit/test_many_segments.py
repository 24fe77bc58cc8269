"""Lists of what has thousands of segments: pages are short, and nothing is left out."""

from typing import Any

import pytest

from controller.http.routing import write_cursor
from tests.server import Api
from tests.service.in_process import Service

NOW = 1_700_000_000_000
SEGMENTS = 5_000
NAMES = [f"n{number}" for number in range(7)]


@pytest.fixture
def api(service: Service) -> Api:
    return Api(service.url, transport=service)


def _create(api: Api, name: str, segments: int = 1) -> None:
    wanted = {"log": "external", "segments": segments}
    api.client.put(f"/v1/streams/{name}", json=wanted).raise_for_status()


def _pages(api: Api, path: str, kind: str, name: str, **query: str) -> list[list[str]]:
    """Read a list to its end; return what each page has."""
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
    _create(api, "read/one", SEGMENTS)
    for name in NAMES:
        group = {"streams": ["read/one"]}
        api.client.put(f"/v1/reader-groups/read/{name}", json=group).raise_for_status()
    names = [f"read/{name}" for name in NAMES]
    assert _pages(api, "/v1/reader-groups", "groups", "group") == [names[:5], names[5:]]


def test_a_page_of_hundreds_of_streams_has_as_many_as_are_asked_for(api: Api) -> None:
    for number in range(202):
        _create(api, f"zeros/{number:03}")
    query = {"limit": "201", "cursor": write_cursor("zero/z")}
    pages = _pages(api, "/v1/streams", "streams", "stream", **query)
    names = [f"zeros/{number:03}" for number in range(202)]
    assert pages == [names[:201], names[201:]]


def test_a_page_of_streams_has_5_000_segments_at_most_or_one_stream(api: Api) -> None:
    for name, segments in (("a", 3_000), ("b", 2_000), ("c", 5_001), ("d", 4_999), ("e", 1)):
        _create(api, f"wide/{name}", segments)
    query = {"cursor": write_cursor("wid/z")}
    pages = _pages(api, "/v1/streams", "streams", "stream", **query)
    assert pages[:3] == [["wide/a", "wide/b"], ["wide/c"], ["wide/d", "wide/e"]]
