"""The conformance vectors of event-time processing: one test a case, named after it."""

from typing import Any

import pytest

from tests.conformance.event_time import WAYS, run_event_time_case
from tests.conformance.test_vectors import EVENT_TIME_CASES


@pytest.mark.parametrize("case", EVENT_TIME_CASES, ids=lambda case: str(case["name"]))
def test_vector(case: dict[str, Any]) -> None:
    for way in WAYS:
        run_event_time_case(case, way)


@pytest.mark.parametrize(
    "case",
    [case for case in EVENT_TIME_CASES if case["operator"] == "windowed"],
    ids=lambda case: str(case["name"]),
)
def test_vector_of_windows_as_on_spark(case: dict[str, Any]) -> None:
    run_event_time_case(case, "as on Spark")
