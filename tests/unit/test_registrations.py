"""A registration that is repeated, or arrives late, is the one that was made."""

import pytest

from tests.property.memory import Memory
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.outcomes import Registration
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.errors import InvalidPositionError, StreamSealedError, WriterFencedError
from tidegauge.topology import Topology

NOW = Now(1_000, 1_000)
SETTINGS = StreamSettings(mark_interval_ms=0, mark_resolution_ms=0)
TOPOLOGY = Topology.of_equal_ranges(1)


@pytest.fixture
def stream() -> Aggregator:
    return Aggregator("tests/one", SETTINGS, TOPOLOGY)


def _register(stream: Aggregator, registration_id: str | None, writer: str = "w") -> int:
    answer = stream.register(writer, now=NOW, registration_id=registration_id)
    return answer.incarnation


def test_a_known_registration_is_answered_with_the_incarnation_that_it_made(
    stream: Aggregator,
) -> None:
    assert [_register(stream, one) for one in ("a", "a", "b", "a", "b")] == [1, 1, 2, 1, 2]
    stream.note_time("w", 10, {0: 1}, incarnation=2, now=NOW)
    with pytest.raises(WriterFencedError):
        stream.note_time("w", 11, {}, incarnation=1, now=NOW)


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


def test_an_id_is_its_writers_and_without_one_every_registration_is_new(
    stream: Aggregator,
) -> None:
    assert [_register(stream, None) for _ in range(3)] == [1, 2, 3]
    assert (_register(stream, "a"), _register(stream, "a", "v")) == (4, 1)


def test_the_last_four_registrations_of_a_writer_are_known(stream: Aggregator) -> None:
    assert [_register(stream, one) for one in "abcd"] == [1, 2, 3, 4]
    assert [_register(stream, one) for one in "abcd"] == [1, 2, 3, 4]
    assert _register(stream, "e") == 5
    assert [_register(stream, one) for one in "bcde"] == [2, 3, 4, 5]
    assert _register(stream, "a") == 6


def test_registrations_are_known_after_a_restart_whatever_was_compacted(
    stream: Aggregator,
) -> None:
    memory = Memory()
    for one in ("a", "b", None):
        _register(stream, one)
        memory.apply(stream.take_changes())
    for compact in (False, True):
        memory.apply(stream.take_changes(compact=compact))
        stream = Aggregator.restore("tests/one", SETTINGS, TOPOLOGY, memory.stored())
        assert [_register(stream, one) for one in ("a", "b")] == [1, 2]


def test_a_registration_that_was_made_is_answered_after_the_seal(stream: Aggregator) -> None:
    _register(stream, "a")
    stream.seal({0: 0}, NOW)
    assert _register(stream, "a") == 1
    with pytest.raises(StreamSealedError):
        _register(stream, "b")


def test_a_stream_does_not_end_below_what_a_former_incarnation_reported() -> None:
    settings = StreamSettings(mark_interval_ms=0, mark_resolution_ms=0, min_writers=2)
    stream = Aggregator("tests/one", settings, TOPOLOGY)
    stream.note_time("w", 10, {0: 40}, now=NOW)
    stream.note_time("w", 5, {0: 7}, incarnation=1, now=NOW)
    with pytest.raises(InvalidPositionError, match="writers reported 40"):
        stream.seal({0: 39}, NOW)
    assert stream.seal({0: 40}, NOW).marks[-1].cut == {0: 40}
