"""NDJSON appends: routing, one transaction with the report, idempotency keys."""

from typing import Any

import pytest

from tests.service.log_api import LogApi

LINE = '{"key": "a", "event_time": 1, "value": "x"}\n'


@pytest.fixture
def log(log: LogApi) -> LogApi:
    log.create()
    return log


def test_a_line_takes_text_or_base64_and_may_lack_a_time(log: LogApi) -> None:
    log.append_lines(
        '{"key": "a", "value": "\\u00fc"}\n\n'
        '{"key": "", "value_base64": "AP8=", "event_time": "1970-01-01T00:00:01Z"}\n'
        '{"key": "b", "value": "", "event_time": "-5"}'
    )
    assert log.events() == [("a", None, "ü".encode()), ("", 1_000, b"\x00\xff"), ("b", -5, b"")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"key": "a", "value": 21.5}', "value is 21.5; send a string"),
        ('{"key": "a"}', "send either value or value_base64"),
        ('{"key": "a", "value": "x", "value_base64": "eA=="}', "send either"),
        ('{"key": "a", "value_base64": "?"}', "is not base64"),
        ('{"value": "x"}', "key is null; send a string"),
        ('{"key": "a", "value": "x", "time": 1}', "unknown fields ['time']"),
        ('{"key": "a", "value": "x", "event_time": 1.5}', "1.5 is not an event time"),
        ('{"key": "a", "value": "x", "event_time": 9223372036854775808}', "64-bit"),
        ('{"key": "a", "value": "x", "event_time": NaN}', "is not JSON"),
        ('{"key": true, "value": "x"}', "key is true; send a string"),
        ('{"key": "a", "value": {"x": null}}', "or bytes as value_base64"),
        ('{"key": "a:b", "event_time": 1, "key": "k", "value": "v"}', "twice"),
        ("[1]", "is not an object"),
        ("{", "is not JSON"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_appended(
    log: LogApi, line: str, message: str
) -> None:
    answer = log.append_lines(f"{LINE}\n{line}\n")
    assert (answer["status"], answer["code"]) == (422, "invalid_request")
    assert [error["field"] for error in answer["errors"]] == ["line 3"]
    assert message in answer["errors"][0]["message"]
    assert log.tail() == {"0": 0}


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"writer": "w", "note_time": 999, "incarnation": 1}, "invalid_time"),
        ({"writer": "w", "note_time": 2_000}, "incarnation_required"),
        ({"writer": "w", "note_time": 2_000, "incarnation": 0}, "writer_fenced"),
        ({"writer": "w", "incarnation": 0}, "writer_fenced"),
        ({"writer": "w", "note_time": 10**18, "incarnation": 1}, "time_in_future"),
        ({"note_time": 2_000}, "invalid_request"),
    ],
)
def test_if_the_report_is_refused_nothing_is_appended(
    log: LogApi, params: dict[str, Any], code: str
) -> None:
    log.register()
    log.note_time(1_000, incarnation=1)
    assert log.append_lines(LINE, **params)["code"] == code
    assert log.tail() == {"0": 0}
    assert log.append_lines(LINE, writer="w", note_time=1_000, incarnation=1)["position"] == {
        "0": 1
    }


@pytest.mark.parametrize("before", ["", "register", "note"])
def test_a_registration_covers_what_was_appended_before_it(log: LogApi, before: str) -> None:
    if before == "register":
        log.register()
    elif before == "note":
        log.note_time(1_000, position={})
    incarnation: dict[str, Any] = {"incarnation": 1} if before == "register" else {}
    log.append_lines(LINE * 4, writer="w", **incarnation)
    log.append_lines(LINE)
    assert log.register()["position"] == {"0": 4}


def test_a_first_report_covers_what_was_appended_before_it(log: LogApi) -> None:
    log.append_lines(LINE * 4, writer="w")
    log.append_lines(LINE)
    log.note_time(1_000, position={})
    assert log.mark == (1_000, {"0": 4})


def test_a_last_report_of_a_new_incarnation_covers_what_was_appended_before_it(
    log: LogApi,
) -> None:
    log.note_time(1_000, position={})
    log.append_lines(LINE * 4, writer="w", incarnation=3)
    left = log.says("w", "leave", time=2_000, position={}, incarnation=3)
    assert (left["state"], left["position"]) == ("left", {"0": 4})


def test_a_name_that_was_never_registered_is_fenced_by_its_newest_append(log: LogApi) -> None:
    log.append_lines(LINE, writer="w", incarnation=3)
    assert log.append_lines(LINE, writer="w", incarnation=2)["code"] == "writer_fenced"
    assert log.register()["incarnation"] == 4


def test_an_idempotency_key_appends_once_and_gets_the_same_answer(log: LogApi) -> None:
    assert log.append_lines(LINE, key="one")["position"] == {"0": 1}
    assert log.append_lines(LINE, key="two")["position"] == {"0": 2}
    assert log.append_lines(LINE, key="one")["position"] == {"0": 1}
    assert log.tail() == {"0": 2}
    other = log.append_lines(LINE * 2, key="one")
    assert (other["status"], other["code"]) == (422, "invalid_request")
    assert other["errors"][0]["field"] == "Idempotency-Key"


def test_an_idempotency_key_gets_its_answer_also_after_the_stream_is_sealed(
    log: LogApi,
) -> None:
    assert log.append_lines(LINE, key="one")["position"] == {"0": 1}
    log.post("seal")
    assert log.append_lines(LINE, key="one")["position"] == {"0": 1}
    assert log.append_lines(LINE, key="two")["code"] == "stream_sealed"


def test_a_refused_request_does_not_use_its_idempotency_key_up(log: LogApi) -> None:
    log.note_time(1_000)
    refused = log.append_lines(LINE, key="one", writer="w", note_time=999)
    assert refused["code"] == "invalid_time"
    assert log.append_lines(LINE, key="one", writer="w", note_time=1_000)["position"] == {
        "0": 1
    }
