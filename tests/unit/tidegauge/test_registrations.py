"""A registration that is repeated, or arrives late, is the one that was made."""

import pytest

from tidegauge.aggregation.outcomes import Registration
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.errors import InvalidPositionError
from tidegauge.topology import Topology

NOW = Now(1_000, 1_000)
SETTINGS = StreamSettings(mark_interval_ms=0, mark_resolution_ms=0)
TOPOLOGY = Topology.of_equal_ranges(1)


@pytest.fixture
def stream() -> Aggregator:
    return Aggregator("tests/one", SETTINGS, TOPOLOGY)


def _register(stream: Aggregator, registration_id: str | None) -> int:
    return stream.register("w", now=NOW, registration_id=registration_id).incarnation


def test_a_late_copy_changes_nothing_of_the_writer(stream: Aggregator) -> None:
    stream.register("w", now=NOW, time=10, registration_id="a")
    stream.note_time("w", 20, {0: 5}, incarnation=1, now=NOW)
    stream.run_pass(NOW)
    stream.take_changes()
    before = list(stream.inspect(NOW).statuses())
    answer = stream.register("w", now=NOW, time=10, registration_id="a")
    assert answer == Registration(1, 20, 20, "active", {0: 5}, is_repeated=True)
    assert list(stream.inspect(NOW).statuses()) == before
    assert not stream.take_changes()


def test_the_last_four_registrations_of_a_writer_are_known(stream: Aggregator) -> None:
    assert [_register(stream, one) for one in "abcd"] == [1, 2, 3, 4]
    assert [_register(stream, one) for one in "abcd"] == [1, 2, 3, 4]
    assert _register(stream, "e") == 5
    assert [_register(stream, one) for one in "bcde"] == [2, 3, 4, 5]
    assert _register(stream, "a") == 6


def test_a_stream_does_not_end_below_what_a_former_incarnation_reported() -> None:
    settings = StreamSettings(mark_interval_ms=0, mark_resolution_ms=0, min_writers=2)
    stream = Aggregator("tests/one", settings, TOPOLOGY)
    stream.note_time("w", 10, {0: 40}, now=NOW)
    stream.note_time("w", 5, {0: 7}, incarnation=1, now=NOW)
    with pytest.raises(InvalidPositionError, match="writers reported 40"):
        stream.seal({0: 39}, NOW)
    assert stream.seal({0: 40}, NOW).marks[-1].cut == {0: 40}
