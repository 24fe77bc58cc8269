"""What is wrong with a request is said with the value, and with what can be sent instead."""

import pytest
from pydantic import ValidationError

from controller.http.messages.problems import invalid_request
from tidegauge.wire.streams import CreateStream


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"aggregation_timeout_ms": 0},
            (
                "aggregation_timeout_ms: Input should be greater than or equal to 1, not 0; null "
                "waits for ever"
            ),
        ),
        (
            {"mark_retention_ms": "-7"},
            (
                "mark_retention_ms: Input should be greater than or equal to 1, not -7; null keeps "
                "marks as long as the events"
            ),
        ),
        (
            {"segments": 10_001},
            "segments: Input should be less than or equal to 10000, not 10001",
        ),
        ({"log": "kafka"}, "log: Input should be 'embedded' or 'external'"),
        ({"segment": 1}, "segment: this call has no such field"),
    ],
)
def test_a_setting_that_cannot_be(settings: dict[str, object], problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        CreateStream.model_validate(settings)
    assert invalid_request(caught.value).detail == problem
