"""The conformance vectors against a server process: those that can be said over REST."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.rest import Played, can_be_said
from tests.conformance.test_vectors import CASES
from tests.server import Api, ServerProcess

SAID = [case for case in CASES if can_be_said(case)]


@pytest.fixture(scope="module")
def calls(shared_server: ServerProcess) -> Iterator[Api]:
    """Calls to one server, of which each case has a stream."""
    with Api(shared_server.url) as api:
        yield api


def test_the_cases_that_no_clock_matters_in_are_said_over_rest() -> None:
    assert len(SAID) == 68


@pytest.mark.parametrize("case", SAID, ids=lambda case: str(case["name"]))
def test_case(calls: Api, case: dict[str, Any]) -> None:
    Played(calls, case).play()
