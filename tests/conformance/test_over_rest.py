"""A tenth of the conformance vectors over HTTP, by a service whose clocks are set by hand."""

from collections.abc import Iterator

import pytest

from controller.configuration import ServeSettings
from tests.conformance.rest import HandClock, Played
from tests.conformance.test_vectors import CASES
from tests.service.api import Api
from tests.service.in_process import called_in_process

BY_NAME = {case["name"]: case for case in CASES}
CLOCK = HandClock()
PLAYED = [
    "three-writers-then-scale",
    "windows-over-scaling",
    "refusals",
    "left-out-incarnation",
    "expiry-by-hand",
    "leave-then-return",
    "future",
    "told-what-the-others-have-reached",
    "position-checks",
    "seal-in-the-middle",
    "forgotten-writers",
    "int64-edges",
    "register-with-a-refused-time",
    "leaving-checks-the-incarnation",
    "after-the-seal",
    "a-diamond-with-an-empty-side",
]
"""Each kind of step, and each kind of refusal."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Calls to one service, of which each case has a stream."""
    database = tmp_path_factory.mktemp("cases") / "tidegauge.db"
    settings = ServeSettings(database_url=f"sqlite:///{database}")
    with CLOCK.in_force(), called_in_process(settings) as client:
        api = Api("http://localhost")
        api.client = client
        yield api


@pytest.mark.parametrize("name", PLAYED)
def test_case(calls: Api, name: str) -> None:
    Played(calls, CLOCK, BY_NAME[name]).play()
