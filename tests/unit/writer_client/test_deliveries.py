"""Which records a note waits for and covers: in whatever order they are acknowledged."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, TIMESTAMP_LOG_APPEND_TIME, Message
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.errors import InvalidTimeError
from writer_client._deliveries import Deliveries, Span
from writer_client._errors import (
    DeliveryFailedError,
    LogAppendTimeError,
    NoAcknowledgementsError,
)
from writer_client._hints import Hints
from writer_client._noter import Noter


@dataclass
class _Record:
    """What was produced, and its delivery report."""

    span: Span
    place: int = 0
    number: int | None = None
    stamped_by: int = 1

    def report(self, error: object = None) -> None:
        offset, stamp = self.number, (self.stamped_by, 0)
        found = Message(
            topic="t",
            partition=self.place,
            offset=OFFSET_INVALID if offset is None else offset,
            value=b"",
            timestamp=stamp,
        )
        self.span.heard(0, error, found)


def _deliveries(**ends: int) -> Deliveries:
    made = Deliveries(Noter("api-1", Hints("shop/orders")), lambda: None)
    made.wants_ends = False
    made.cover({int(name[1:]): offset for name, offset in ends.items()})
    return made


def _sent(deliveries: Deliveries) -> list[tuple[int, Any]]:
    notes = deliveries.send_notes(100)
    if notes:
        deliveries.noter.accept()
    return notes


def test_the_first_note_covers_the_ends_of_the_log() -> None:
    deliveries = Deliveries(Noter("api-1", Hints("shop/orders")), lambda: None)
    record = _Record(deliveries.begin(), 0, 6)
    deliveries.note(10)
    record.report()
    assert deliveries.has_ready
    assert _sent(deliveries) == []
    deliveries.wants_ends = False
    deliveries.cover({0: 9, 1: 3})
    assert _sent(deliveries) == [(10, {0: 9, 1: 3})]


def test_ends_that_are_read_while_a_note_is_on_its_way_are_covered_by_the_next() -> None:
    deliveries = _deliveries()
    deliveries.note(10)
    assert deliveries.send_notes(100) == [(10, {})]
    deliveries.cover({0: 7})
    deliveries.noter.accept()
    deliveries.note(20)
    assert _sent(deliveries) == [(20, {0: 7})]


def test_a_failed_delivery_withholds_notes_until_the_caller_was_told() -> None:
    deliveries = _deliveries()
    kept = _Record(deliveries.begin(), 0, 0)
    deliveries.note(5)
    lost = _Record(deliveries.begin(), 1)
    deliveries.note(10)
    lost.report("too large")
    kept.report()
    assert _sent(deliveries) == [(5, {0: 1})]
    with pytest.raises(DeliveryFailedError, match="too large") as raised:
        deliveries.note(20)
    assert [one.partition for one in raised.value.records] == [1]
    deliveries.note(7)  # what is produced again may be older than what was withheld
    assert _sent(deliveries) == []
    assert deliveries.wants_ends
    deliveries.wants_ends = False
    deliveries.cover({0: 1, 1: 2})
    assert _sent(deliveries) == [(7, {0: 1, 1: 2})]


def test_notes_of_a_transaction_wait_for_its_commit_and_go_with_its_abort() -> None:
    deliveries = _deliveries()
    deliveries.begin_transaction()
    aborted = _Record(deliveries.begin())
    deliveries.note(10)
    aborted.report("purged")
    deliveries.abort()
    assert _sent(deliveries) == []
    deliveries.begin_transaction()
    committed = _Record(deliveries.begin(), 0, 3)
    deliveries.note(8)
    committed.report()
    assert _sent(deliveries) == []
    deliveries.commit()
    assert _sent(deliveries) == [(8, {0: 4})]


def test_nobody_who_hears_of_no_place_notes_anything() -> None:
    deliveries = _deliveries()
    record = _Record(deliveries.begin())
    deliveries.note(10)
    record.report()
    assert _sent(deliveries) == []
    with pytest.raises(NoAcknowledgementsError, match="acks=all"):
        deliveries.begin()


def test_what_a_broker_stamps_itself_is_noted_only_of_times_inside_the_values() -> None:
    deliveries, sent = _deliveries(), list[Any]()
    for event_time, number in ((10, 6), (None, 7)):
        record = _Record(deliveries.begin(event_time), 0, number, TIMESTAMP_LOG_APPEND_TIME)
        deliveries.note(number)
        record.report()
        sent += _sent(deliveries)
    assert sent == [(6, {0: 7}), (7, {0: 8})]
    with pytest.raises(LogAppendTimeError, match=r"topic 't'.* event_time= "):
        deliveries.note(20)


def test_a_record_that_was_not_taken_is_not_waited_for() -> None:
    deliveries = _deliveries()
    deliveries.withdraw(deliveries.begin())
    span = deliveries.begin()
    deliveries.note(10)
    assert _sent(deliveries) == []
    deliveries.withdraw(span)
    assert _sent(deliveries) == [(10, {})]
    with pytest.raises(InvalidTimeError):
        deliveries.note(9)


@dataclass
class _Model:
    """All that happened, looked at anew for every note: by brute force."""

    produced: list[_Record] = field(default_factory=list)
    settled: list[bool] = field(default_factory=list)
    notes: list[tuple[int, int]] = field(default_factory=list)
    """Time, and how many records were produced before."""

    def due(self) -> dict[int, dict[int, int]]:
        """Every note that may have been sent, by its time, with all that it and those before cover."""
        found = {}
        for time, end in self.notes:
            if not all(self.settled[:end]):
                break
            covered: dict[int, int] = {}
            for one in self.produced[:end]:
                assert one.number is not None
                covered[one.place] = max(one.number + 1, covered.get(one.place, 0))
            found[time] = covered
        return found


@given(st.lists(st.one_of(st.just("note"), st.integers(0, 2), st.floats(0, 1)), max_size=60))
def test_whatever_the_order_each_note_covers_what_was_produced_before_it(
    steps: list[str | int | float],
) -> None:
    deliveries, model = _deliveries(), _Model()
    lengths = {0: 0, 1: 0, 2: 0}
    covered: dict[int, int] = {}
    sent: dict[int, dict[int, int]] = {}
    for nth, step in enumerate(steps):
        if step == "note":
            deliveries.note(nth)
            model.notes.append((nth, len(model.produced)))
        elif isinstance(step, int):
            model.produced.append(_Record(deliveries.begin(), step, lengths[step]))
            model.settled.append(False)
            lengths[step] += 1
        elif isinstance(step, float):
            open_ = [one for one, done in enumerate(model.settled) if not done]
            if open_:
                chosen = open_[int(step * (len(open_) - 1))]
                model.produced[chosen].report()
                model.settled[chosen] = True
        for time, position in _sent(deliveries):
            covered |= position
            sent[time] = dict(covered)
        due = model.due()
        assert sent.items() <= due.items()
        # A note without a record since the one before may stand for both.
        assert max(sent, default=None) == max(due, default=None)
