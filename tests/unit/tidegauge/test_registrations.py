"""A registration that is repeated, or arrives late, is the one that was made; what each costs."""

from collections.abc import Iterator

import pytest

from tests.property.memory import Memory
from tidegauge.aggregation.outcomes import Registration
from tidegauge.aggregation.progress import Progress
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now, Writer
from tidegauge.aggregator import Aggregator
from tidegauge.errors import InvalidPositionError, StreamSealedError
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


class _CountsLooks(dict[Writer, None]):
    """The writers that are ahead; counts how often all of them are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Writer]:
        self.looks += 1
        return super().__iter__()


@pytest.mark.parametrize("storage", [None, Memory()], ids=["runs on", "restarts"])
def test_what_the_others_reached_is_looked_for_when_somebody_registers_and_is_of_the_last_pass(
    monkeypatch: pytest.MonkeyPatch, storage: Memory | None
) -> None:
    ahead = _CountsLooks()

    class Counted(Progress):
        def __init__(self) -> None:
            super().__init__()
            self.ahead = ahead

    monkeypatch.setattr("tidegauge.aggregator.Progress", Counted)
    stream = Aggregator("tests/one", SETTINGS, TOPOLOGY)
    for writer in ("a", "b"):
        stream.note_time(writer, 10, {}, now=NOW)
    stream.run_pass(NOW)
    stream.register("joins", now=NOW)
    looks, changes = [], [stream.take_changes()]
    for passed_ms in range(1, 100):
        later = Now(1_000 + passed_ms, 1_000 + passed_ms)
        for writer, time in (("a", 10 + passed_ms), ("b", 20 + passed_ms)):
            stream.note_time(writer, time, {}, now=later)
            stream.run_pass(later)
        looks.append(ahead.looks)
    assert looks[1] == looks[-1]
    for time in (500, 600):  # after the last pass, so that they do not count
        stream.note_time("a", time, {}, now=later)
    if storage is not None:
        for each in (*changes, stream.take_changes()):
            storage.apply(each)
        stream = Aggregator.restore("tests/one", SETTINGS, TOPOLOGY, storage.stored())
    assert stream.register("first", now=later).time == 109
    looks.append(ahead.looks)
    assert stream.register("second", now=later).time == 109
    assert ahead.looks == looks[-1]
