"""Times of events that no reader can hold are refused where they are appended; odd ones are hinted at."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.service.log_api import Event, LogApi, arrow_of
from tests.service.transaction_api import append_batch, begin

NOON = 1_704_110_400_000
MICROSECONDS = NOON * 1_000
RIGHT: list[Event] = [("a", NOON, b"x"), ("b", NOON + 1, b"y")]
WRONG: list[Event] = [("a", NOON, b"x"), ("b", MICROSECONDS, b"y")]
SAID = (
    "event_time of key 'b': no reader can hold 1704110400000000, which lies beyond the years 1 to "
    "9999: are these microseconds? Times are milliseconds, such as 1704110400000"
)
Append = Callable[[list[Event]], dict[str, Any]]


@pytest.fixture
def log(log: LogApi) -> LogApi:
    log.create()
    log.register()
    return log


def _lines(events: list[Event]) -> str:
    lines = [
        f'{{"key": "{key}", "event_time": {time}, "value": "{value.decode()}"}}'
        for key, time, value in events
    ]
    return "\n\n".join(lines)


def _ways(log: LogApi) -> dict[str, tuple[Append, str]]:
    """By which events are appended, each so that it can be repeated, and how it names the second."""
    transaction = begin(log)
    return {
        "lines": (lambda events: log.append_lines(_lines(events), key="k"), "line 3"),
        "arrow": (lambda events: log.append(events, 1), "row 1"),
        "staged": (lambda events: transaction.stage(events, 1), "row 1"),
        "staged lines": (lambda events: transaction.stage_lines(_lines(events), 1), "line 3"),
        "batch": (lambda events: append_batch(log, 1, events), "row 1"),
    }


@pytest.mark.parametrize("way", ["lines", "arrow", "staged", "staged lines", "batch"])
def test_a_time_that_no_reader_can_hold_is_refused_and_its_append_can_be_mended(
    log: LogApi, way: str
) -> None:
    append, place = _ways(log)[way]
    refused = append(WRONG)
    assert (refused["status"], refused["code"]) == (422, "invalid_request")
    assert refused["errors"] == [{"field": place, "message": SAID}]
    assert log.tail() == {"0": 0}
    assert append(RIGHT)["hint"] is None  # by the same key, sequence or number


@pytest.mark.parametrize("way", ["arrow", "staged", "staged lines", "batch"])
def test_what_was_stored_is_answered_whatever_times_are_sent_again(
    log: LogApi, way: str
) -> None:
    append, _ = _ways(log)[way]
    append(RIGHT)
    assert append(WRONG)["duplicate"] is True


@pytest.mark.parametrize("way", ["lines", "arrow", "staged", "staged lines", "batch"])
def test_seconds_are_appended_with_a_hint_that_the_explanation_shows(
    log: LogApi, way: str
) -> None:
    append, _ = _ways(log)[way]
    hint = append([*RIGHT, ("c", NOON // 1_000, b"z")])["hint"]
    assert hint == (
        "event time 1704110400 lies in early 1970: are these seconds? Times are milliseconds"
    )
    explained = log.json(log.client.get(f"{log.path}/watermark"))["explanation"]
    assert explained["hint"].endswith(f"appended an odd time: {hint}.")
    listed = log.client.get("/v1/streams", params={"explain": "true", "limit": 1_000}).json()
    (stream,) = (one for one in listed["streams"] if log.path.endswith(one["stream"]))
    assert stream["explanation"]["hint"] == explained["hint"]


def test_a_time_ahead_of_the_clock_is_hinted_at_unless_the_stream_takes_it(log: LogApi) -> None:
    year_9999: list[Event] = [("a", 253_402_300_799_999, b"x")]
    assert "ahead of this server's clock: is that right?" in log.append(year_9999, 1)["hint"]
    log.path += "-logical"
    log.create(max_future_skew_ms=None)
    log.register()
    assert log.append([*year_9999, ("a", 5, b"x")], 1)["hint"] is None
    assert log.append(arrow_of(WRONG), 2)["code"] == "invalid_request"
