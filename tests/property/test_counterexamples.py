"""What the properties found in the core once, as the shortest stories that show it."""

from tests.property.events import Shape
from tests.property.model import Rules
from tests.property.pair import Pair

FEW = 36
"""A log of 32 items is not worth compacting."""


def _note(pair: Pair, writer: str, time: int, position: dict[int, int]) -> str:
    result = pair.note(writer, time, position, incarnation=None)
    pair.compare()
    return result


def _leave(pair: Pair, writer: str) -> None:
    pair.leave(writer, incarnation=None)
    pair.compare()


def _pass(pair: Pair) -> None:
    pair.run_pass()
    pair.compare()


def test_a_writer_is_not_forgotten_before_the_first_mark_and_never_counted_twice() -> None:
    pair = Pair(Shape.of(1), Rules(min_writers=2, retention_ms=0))
    _note(pair, "a", 5, {})
    _leave(pair, "a")
    _pass(pair)
    assert "a" in pair.core
    _note(pair, "a", 6, {})
    _pass(pair)
    assert pair.core.newest is None


def test_the_final_mark_lets_go_of_writers_that_no_other_mark_covered() -> None:
    pair = Pair(Shape.of(1), Rules(min_writers=2, retention_ms=0))
    _note(pair, "a", 0, {})
    _note(pair, "a", 0, {0: 1})
    pair.seal({0: 1})
    _leave(pair, "a")
    _pass(pair)
    assert "a" not in pair.core


def test_a_pass_is_due_after_the_final_mark() -> None:
    pair = Pair(Shape.of(1), Rules(retention_ms=0))
    _note(pair, "a", 0, {})
    pair.leave("a", last=(0, {0: 1}), incarnation=None)
    pair.seal({0: 1})
    assert pair.core.pass_due
    _pass(pair)


def test_a_longer_retention_is_granted_to_those_already_overdue() -> None:
    pair = Pair(Shape.of(1), Rules(retention_ms=5))
    _note(pair, "a", 0, {})
    _note(pair, "b", 0, {})
    _note(pair, "b", 1, {0: 1})
    _leave(pair, "b")
    pair.tick(5, 5)
    _pass(pair)
    pair.change_rules(Rules(retention_ms=50))
    _note(pair, "a", 2, {})
    _pass(pair)
    assert "b" in pair.core
    assert pair.core.next_deadline() == 50
    pair.tick(45, 45)
    _pass(pair)
    assert "b" not in pair.core


def test_forgetting_who_was_ahead_stops_the_clocks_of_the_others() -> None:
    pair = Pair(Shape.of(1), Rules(timeout_ms=10, retention_ms=0))
    _note(pair, "ahead", 9, {})
    _leave(pair, "ahead")
    _note(pair, "a", 1, {})
    _pass(pair)
    assert pair.core.pass_due
    _pass(pair)
    assert pair.core.next_deadline() is None


def test_upper_forgets_forgotten_writers_as_a_restored_core_does() -> None:
    pair = Pair(Shape.of(1), Rules(retention_ms=0))
    _note(pair, "a", 0, {})
    _note(pair, "d", 0, {})
    pair.leave("d", last=(2, {}), incarnation=None)
    _pass(pair)
    _note(pair, "a", 1, {})
    _pass(pair)
    assert pair.core.newest is not None
    assert pair.core.newest.upper == 1


def test_an_unknown_writer_cannot_speak_with_an_incarnation_below_zero() -> None:
    pair = Pair(Shape.of(1), Rules())
    assert pair.note("a", 0, {}, incarnation=-1) == "writer_fenced"
    assert "a" not in pair.core


def test_what_a_report_repeated_at_the_watermark_gained_is_not_compacted_away() -> None:
    pair = Pair(Shape.of(1), Rules())
    _note(pair, "a", 5, {0: 1})
    _note(pair, "a", 5, {0: 2})
    _pass(pair)
    pair.commit()
    pair.commit(compact=True)
    pair.restart()
    _note(pair, "a", 6, {})
    _pass(pair)
    assert pair.core.newest is not None
    assert pair.core.newest.cut == {0: 2}


def test_a_writer_that_repeats_its_time_all_night_has_few_reports_stored() -> None:
    pair = Pair(Shape.of(1), Rules())
    _note(pair, "a", 5, {0: 1})
    _note(pair, "silent", 5, {})
    _pass(pair)
    for offset in range(2, 400):
        _note(pair, "a", 5, {0: offset})
        pair.commit()
        assert len(pair.memory.reports) <= FEW
    pair.restart()
    _note(pair, "a", 6, {})
    _note(pair, "silent", 6, {})
    _pass(pair)
    assert pair.core.newest is not None
    assert pair.core.newest.cut == {0: 399}


def test_a_report_below_the_watermark_that_no_mark_took_in_outlives_compaction() -> None:
    pair = Pair(Shape.of(1), Rules())
    _note(pair, "a", 5, {0: 1})
    _pass(pair)
    _note(pair, "b", 3, {0: 2})
    pair.commit()
    pair.commit(compact=True)
    pair.restart()
    _note(pair, "b", 6, {})
    _note(pair, "a", 6, {})
    _pass(pair)
    assert pair.core.newest is not None
    assert pair.core.newest.cut == {0: 2}


def test_a_restarted_writer_may_report_less_than_before_whatever_was_stored_together() -> None:
    pair = Pair(Shape.of(2), Rules())
    _note(pair, "a", 5, {0: 4})
    _pass(pair)
    pair.register("a")
    assert pair.note("a", 6, {1: 1}, incarnation=1) == "accepted"
    _pass(pair)
    pair.restart()
    assert pair.note("a", 7, {0: 2}, incarnation=1) == "accepted"
