"""Which promises an observer notes, when, and which partitions it reads first."""

from writer_client._notes import BULK
from writer_client.observing.observation import Row
from writer_client.observing.promises import PromiseObservation


def _observation(partitions: int = 2, *, registered: int | None = None) -> PromiseObservation:
    """Observe partitions from offset 5, each with its writer; all that is read is cleared."""
    observation = PromiseObservation(checks=True)
    for number in range(partitions):
        observation.partitions.assign(number, 5)
        observation.sources.expect(str(number), number)
        observation.admit(str(number), registered, 0)
    observation.register(range(partitions))
    return observation


def _read(
    observation: PromiseObservation, partition: int, offset: int, *, promise: int
) -> None:
    row = Row(str(partition), partition, offset, None, None, promise)
    observation.read(row, latest_ms=2**62, wall_ms=0)


def _clear(observation: PromiseObservation, *partitions: int) -> None:
    """Look, and find these partitions in the topic."""
    observation.unregistered(partitions or observation.partitions)
    observation.clear(observation.partitions.position)


def _notes(observation: PromiseObservation, now_ms: int = 0) -> list[tuple[str, int, object]]:
    return [(one.writer, one.time, dict(one.position)) for one in observation.notes(now_ms)]


def test_of_promises_closer_than_marks_the_newest_is_kept() -> None:
    observation = _observation(1)
    observation.resolution_ms = 100
    for offset, promise in enumerate([1_000, 1_050, 1_060, 1_100, 1_120], 5):
        _read(observation, 0, offset, promise=promise)
    _clear(observation)
    assert [time for _, time, _ in _notes(observation)] == [1_000, 1_060, 1_120]
    assert _notes(observation) == [("0", 1_120, {0: 10})]  # the others may be stored by now


def test_nothing_is_noted_while_a_look_finds_a_partition_without_a_writer() -> None:
    observation = _observation()
    _read(observation, 0, 5, promise=9_000)
    _read(observation, 1, 5, promise=9_000)
    _clear(observation, 0, 1, 2)
    assert (_notes(observation), observation.holding) == ([], {"2": None})
    observation.register([2])
    _clear(observation, 0, 1, 2)
    assert (len(_notes(observation)), observation.holding) == (2, {})


def test_no_more_is_kept_than_a_call_takes() -> None:
    observation = _observation(1)
    for offset in range(BULK + 2):
        _read(observation, 0, 5 + offset, promise=offset)
    _clear(observation)
    notes = observation.notes(0)
    assert [one.time for one in notes] == [*range(BULK - 1), BULK + 1]
    for note in notes:
        observation.accept(note, 0)
    _read(observation, 0, BULK + 7, promise=BULK + 2)
    _read(observation, 0, BULK + 8, promise=BULK + 3)
    _clear(observation)
    assert [time for _, time, _ in _notes(observation)] == [BULK + 2, BULK + 3]


def test_what_was_noted_is_repeated_at_the_place_of_its_promise() -> None:
    observation = _observation(1, registered=500)
    observation.beat_ms = 20
    assert _notes(observation, 20) == [("0", 500, {0: 5})]
    _read(observation, 0, 5, promise=400)
    _read(observation, 0, 6, promise=1_000)
    _clear(observation)
    for note in observation.notes(0):
        observation.accept(note, 0)
    _read(observation, 0, 7, promise=2_000)  # no look yet
    assert _notes(observation, 20) == [("0", 1_000, {0: 7})]


def test_what_was_promised_before_the_start_is_compared_too() -> None:
    observation = _observation(1, registered=500)
    row = Row("0", 0, 5, 499, None)
    observation.read(row, latest_ms=2**62, wall_ms=0)
    _read(observation, 0, 6, promise=400)
    assert (observation.sources.counts.late, observation.sources.counts.fallen) == (1, 1)


def test_those_ahead_wait_while_the_lowest_one_has_more_to_read() -> None:
    observation = _observation(3, registered=100)
    _read(observation, 0, 5, promise=1_000)
    _read(observation, 1, 5, promise=2_000)
    ends = {0: 6, 1: 6, 2: 9}
    assert observation.ahead(ends) == {0, 1}
    _read(observation, 2, 5, promise=1_000)
    assert observation.ahead(ends) == {1}
    observation.partitions.read_to(2, 9)
    # The next promise of those that are lowest has not been written: nobody waits for it here.
    assert observation.ahead(ends) == set()
    assert observation.ahead({**ends, 0: 7}) == {1}


def test_a_partition_that_is_revoked_is_forgotten() -> None:
    observation = _observation()
    _read(observation, 0, 5, promise=1_000)
    _read(observation, 1, 5, promise=1_000)
    _clear(observation)
    observation.revoke(1)
    assert _notes(observation) == [("0", 1_000, {0: 6})]
    observation.partitions.assign(1, 5)
    observation.sources.expect("1", 1)
    assert _notes(observation) == []
