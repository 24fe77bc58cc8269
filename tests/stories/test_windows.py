"""Time windows over HTTP: among the newest marks, which are in memory, and long before them."""

from collections.abc import Iterator

import pytest

from tests.server import Api, ServerProcess

MARKS = 150
_NOON = 1_704_110_400_000


@pytest.fixture
def marked(shared_server: ServerProcess) -> Iterator[Api]:
    """A stream with a mark at each offset, whose time is noon and so many ms."""
    with Api(shared_server.url, "windows/one") as api:
        api.client.delete(api.path)
        api.create(segments=2, mark_resolution_ms=0)
        for offset in range(1, MARKS + 1):
            api.note("w", _NOON + offset, offset)
        yield api


def _window(api: Api, position: str) -> tuple[int | None, int | None]:
    found = api.get("marks/at", position=position)
    ends = found["lower"], found["upper"]
    lower, upper = (None if one is None else one - _NOON for one in ends)
    return lower, upper


def test_windows_are_right_wherever_a_reader_stands_and_while_marks_come(marked: Api) -> None:
    for _ in range(2):  # found, and known
        assert _window(marked, "0:0") == (None, 1)
        assert _window(marked, "0:10") == (10, 11)
        assert _window(marked, f"0:{MARKS - 3}") == (MARKS - 3, MARKS - 2)
        assert _window(marked, f"0:{MARKS}") == (MARKS, None)
        assert _window(marked, "0:10,1:1") == (10, None)
    marked.note("w", _NOON + 200, 200)
    assert _window(marked, f"0:{MARKS}") == (MARKS, 200)
    assert _window(marked, "0:200") == (200, None)
    for offset in range(201, 205):
        marked.note("w", _NOON + offset, offset)
    assert _window(marked, "0:202") == (202, 203)
    marked.post("writers/w/note-time", time=_NOON + 205, position={"0": 205, "1": 1})
    assert _window(marked, "0:10,1:1") == (10, 205)


def test_the_first_mark_from_a_time_is_found_among_new_ones_and_old_ones(marked: Api) -> None:
    for offset in (1, 2, MARKS - 1, MARKS):
        stop = marked.get("marks/at", time=_NOON + offset)["stop"]
        assert stop["lower"] == _NOON + offset
    assert marked.get("marks/at", time=_NOON + MARKS + 1)["stop"] is None
