"""What a note covers: exactly what was written before it, wherever batches are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from writer_client._outbox import Event, EventBatch, Outbox

EVENT = Event("key", 1, b"value")


def _outbox() -> Outbox:
    return Outbox(limit_bytes=10_000)


def _take(outbox: Outbox, segment: int = 0, events: int = 100) -> EventBatch:
    return outbox.take(segment, max_events=events, max_bytes=10_000)


def test_a_note_waits_for_what_was_written_before_it() -> None:
    outbox = _outbox()
    outbox.write(0, EVENT)
    assert outbox.note(10) == [0]
    assert outbox.ready_notes(10) == []
    outbox.acknowledge(_take(outbox), 41)
    assert outbox.ready_notes(10) == [(10, {0: 41})]


def test_a_note_does_not_cover_what_was_written_after_it_in_the_same_batch() -> None:
    outbox = _outbox()
    outbox.write(0, EVENT)
    outbox.note(10)
    outbox.write(0, EVENT)
    outbox.write(0, EVENT)
    outbox.acknowledge(_take(outbox), 43)
    assert outbox.ready_notes(10) == [(10, {0: 41})]


def test_a_note_with_nothing_new_before_it_is_ready_at_once() -> None:
    outbox = _outbox()
    assert outbox.note(10) == []
    assert outbox.ready_notes(10) == [(10, {})]


def test_a_note_names_only_the_segments_that_changed() -> None:
    outbox = _outbox()
    outbox.write(0, EVENT)
    outbox.note(10)
    outbox.acknowledge(_take(outbox, 0), 1)
    outbox.write(1, EVENT)
    outbox.note(20)
    outbox.acknowledge(_take(outbox, 1), 7)
    assert outbox.ready_notes(10) == [(10, {0: 1}), (20, {1: 7})]


def test_a_failure_is_raised_by_every_later_call() -> None:
    outbox = _outbox()
    outbox.fail(RuntimeError("the disk is gone"))
    with pytest.raises(RuntimeError, match="the disk is gone"):
        outbox.write(0, EVENT)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        outbox.note(1)


def test_a_full_outbox_says_so_until_something_is_stored() -> None:
    outbox = Outbox(limit_bytes=100)
    outbox.write(0, EVENT)
    outbox.write(0, EVENT)
    assert outbox.is_full
    outbox.acknowledge(_take(outbox), 2)
    assert not outbox.is_full
    assert outbox.is_empty


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(0, 1)),
            st.tuples(st.just("note"), st.just(0)),
            st.tuples(st.just("send"), st.integers(0, 1)),
            st.tuples(st.just("others"), st.integers(0, 1)),
        ),
        max_size=60,
    ),
    st.integers(1, 5),
)
def test_every_report_covers_exactly_the_events_before_its_note(
    steps: list[tuple[str, int]], batch_events: int
) -> None:
    """A model log with other writers in between; ours are numbered in order of writing."""
    outbox = _outbox()
    log: dict[int, list[int | None]] = {0: [], 1: []}
    written: dict[int, int] = {0: 0, 1: 0}
    noted: list[dict[int, int]] = []

    def send(segment: int) -> None:
        batch = _take(outbox, segment, batch_events)
        if batch.events:
            log[segment] += range(batch.first_ordinal, batch.end_ordinal)
            outbox.acknowledge(batch, len(log[segment]))

    for step, segment in steps:
        if step == "write":
            outbox.write(segment, EVENT)
            written[segment] += 1
        elif step == "note":
            outbox.note(len(noted))
            noted.append(dict(written))
        elif step == "send":
            send(segment)
        else:
            log[segment].append(None)
    for _ in steps:
        send(0)
        send(1)
    covered: dict[int, int] = {}
    for expected, (time, position) in zip(noted, outbox.ready_notes(100), strict=True):
        covered |= position
        assert noted[time] == expected
        for segment, count in expected.items():
            ours = [one for one in log[segment][: covered.get(segment, 0)] if one is not None]
            assert ours == list(range(count))
