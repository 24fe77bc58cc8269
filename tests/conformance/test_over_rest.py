"""The conformance vectors against a server process whose clocks are set by hand."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.hand_clock import HandClock
from tests.conformance.rest import Played, left_out, starts_unevenly
from tests.conformance.test_vectors import CASES
from tests.conftest import NewServer
from tests.server import Api


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> HandClock:
    """The clock of the server."""
    return HandClock(tmp_path_factory.mktemp("clock") / "ms")


@pytest.fixture(scope="module")
def calls(new_server: NewServer, clock: HandClock) -> Iterator[Api]:
    """Calls to one server, of which each case has a stream."""
    with new_server(launcher=clock.launcher) as server, Api(server.url) as api:
        yield api


def test_the_steps_that_rest_cannot_say_are_known() -> None:
    omitted = {(case["name"], step) for case in CASES for step in left_out(case)}
    assert omitted == {
        ("half-finished-merge", 10),
        ("half-finished-merge", 11),
        ("half-finished-merge", 12),
        ("a-reader-past-a-sealed-length", 4),
        ("a-reader-past-a-sealed-length", 5),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_case(calls: Api, clock: HandClock, case: dict[str, Any]) -> None:
    if starts_unevenly(case):
        pytest.skip("it starts with uneven ranges, which PUT cannot say")
    Played(calls, clock, case).play()
