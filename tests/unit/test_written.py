"""How far the owner of a reporter has written, and what its strategy notes of it."""

from writer_client._noting import Noting
from writer_client._written import Written
from writer_client.strategies import MonotonousTimestamps, ObservedEvent


def _written() -> tuple[Written, Noting]:
    noting = Noting(MonotonousTimestamps(), wall_ms=lambda: 1_000_000)
    return Written(noting), noting


def test_a_time_is_due_with_the_position_shown_so_far_until_it_is_accepted() -> None:
    written, noting = _written()
    assert written.due() is None
    written.observe(noting, ObservedEvent(100), {0: 5, 1: 2})
    written.observe(noting, ObservedEvent(90), {0: 4})
    assert written.due() == (100, {0: 5, 1: 2})
    written.observe(noting, ObservedEvent(100), {0: 6})
    assert written.due() == (100, {0: 6, 1: 2})
    written.accept(100, {})
    assert written.due() is None
    written.observe(noting, ObservedEvent(101), {0: 7})
    assert written.due() == (101, {0: 7, 1: 2})


def test_an_event_is_late_below_a_time_that_is_on_its_way() -> None:
    written, noting = _written()
    written.observe(noting, ObservedEvent(100), {0: 5})
    written.due()
    written.observe(noting, ObservedEvent(99), {0: 6})
    assert noting.late_events == 1


def test_nothing_is_noted_below_what_a_beat_has_said() -> None:
    written, noting = _written()
    assert written.promise(500) == 500
    written.observe(noting, ObservedEvent(100), {0: 5})
    assert written.due() is None
    written.observe(noting, ObservedEvent(501), {0: 6})
    assert written.due() == (501, {0: 6})


def test_a_beat_says_nothing_above_a_time_that_is_not_accepted() -> None:
    written, noting = _written()
    written.observe(noting, ObservedEvent(100), {0: 5})
    written.due()
    assert written.promise(500) == 100
    assert written.promise(None) is None


def test_a_strategy_goes_on_from_a_higher_time_that_its_owner_noted() -> None:
    written, noting = _written()
    written.observe(noting, ObservedEvent(100), {0: 5})
    written.accept(200, {0: 6})
    assert written.due() is None
    assert written.last == (200, {0: 6})
    written.observe(noting, ObservedEvent(201), {0: 7})
    assert written.due() == (201, {0: 7})


def test_without_a_strategy_only_what_was_accepted_is_known() -> None:
    written = Written(None)
    assert written.promise(500) == 500
    assert Written(None).last == (None, {})
    written.accept(100, {0: 5})
    assert written.due() is None
    assert written.last == (100, {0: 5})
