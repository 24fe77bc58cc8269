"""The conformance vectors of event-time processing: one test a case, named after it."""

from typing import Any

import pytest

from tests.conformance.event_time import run_event_time_case
from tests.conformance.test_vectors import EVENT_TIME_CASES


@pytest.mark.parametrize("case", EVENT_TIME_CASES, ids=lambda case: str(case["name"]))
def test_vector(case: dict[str, Any]) -> None:
    run_event_time_case(case)
