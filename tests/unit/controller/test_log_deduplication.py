"""What fails again and again for one reason is one line of the log."""

import logging

import pytest

from controller.logs.deduplication import LogOnce


def test_each_reason_is_told_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    lines = LogOnce(logging.getLogger("tests"))
    for reason in ("100 % away", "full", "100 % away", "full"):
        lines.log(reason)
    assert caplog.messages == ["100 % away", "full"]
    lines.end()
    lines.log("full")
    assert caplog.messages == ["100 % away", "full", "full"]
