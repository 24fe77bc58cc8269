"""What is logged of a call of which nobody knows what became: what an operator may have done."""

import logging
from typing import Any

import pytest

from controller.access.callers import Caller, Role
from controller.http.messages.scopes import log_lost

ALICE = Caller("alice", {"flights": frozenset({Role.OPERATE})})
BOB = Caller("bob", {"flights": frozenset({Role.READ, Role.WRITE})})
STREAM = "/v1/streams/flights/one"
GROUP = "/v1/reader-groups/flights/one"


def _logged(caller: Caller, method: str, path: str, log: pytest.LogCaptureFixture) -> list[Any]:
    with log.at_level(logging.INFO):
        log_lost({"type": "http", "method": method, "path": path, "user": caller})
    return [vars(record) for record in log.records]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", STREAM),
        ("PATCH", STREAM),
        ("DELETE", STREAM),
        ("POST", f"{STREAM}/seal"),
        ("POST", f"{STREAM}/writers/w/expire"),
        ("DELETE", GROUP),
    ],
)
def test_what_an_operator_may_have_done_is_logged(
    method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = _logged(ALICE, method, path, caplog)
    said = [line[name] for name in ("msg", "caller", "method", "path", "status")]
    assert said == ["operator call", "alice", method, path, 502]


@pytest.mark.parametrize(
    ("caller", "method", "path"),
    [
        (BOB, "DELETE", STREAM),
        (ALICE, "DELETE", "/v1/streams/rides/one"),
        (ALICE, "POST", f"{STREAM}/writers/w/note-time"),
        (ALICE, "PUT", GROUP),
        (ALICE, "DELETE", f"{GROUP}/readers/r"),
    ],
)
def test_what_only_others_may_do_or_somebody_may_not_is_not(
    caller: Caller, method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert _logged(caller, method, path, caplog) == []


def test_who_was_refused_without_a_name_is_not(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        log_lost({"type": "http", "method": "DELETE", "path": STREAM})
    assert caplog.records == []
