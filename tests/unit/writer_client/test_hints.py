"""What looks wrong with a writer is logged as a warning, once for each writer and kind."""

import pytest

from writer_client._hints import Hints

SECONDS = "time %d lies in early 1970: are these seconds? Times are milliseconds"
AHEAD = "event time %d is 2h ahead of this server's clock: is that right? If so, do this: that"


def test_a_hint_of_the_service_is_logged_once_for_each_writer_and_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hints = Hints("demo/rides")
    for hint in (None, SECONDS % 1_704_110_400, f"event {SECONDS}" % 9, AHEAD % 7, AHEAD % 8):
        hints.answer("one", hint)
    hints.answer("two", SECONDS % 5)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"writer 'one' of demo/rides: {SECONDS % 1_704_110_400}"),
        ("WARNING", f"writer 'one' of demo/rides: {AHEAD % 7}"),
        ("WARNING", f"writer 'two' of demo/rides: {SECONDS % 5}"),
    ]
