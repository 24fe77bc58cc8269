"""Which notes are reported, and with which positions."""

from writer_client._notes import Notes


def test_a_position_does_not_fall_behind_ends_that_an_earlier_note_covers() -> None:
    notes = Notes()
    notes.add(10, 1)
    notes.add(20, 2)
    notes.reach({0: 4}, 1)
    notes.cover({0: 9})
    assert notes.send(10, below=2) == [(10, {0: 9}), (20, {0: 9})]


def test_a_report_that_failed_says_more_the_next_time() -> None:
    notes = Notes()
    notes.reach({0: 5})
    notes.add(100)
    assert notes.send(10) == [(100, {0: 5})]
    notes.put_back()
    notes.reach({1: 7})
    notes.add(101)
    assert notes.send(10) == [(101, {0: 5, 1: 7})]


def test_too_many_notes_give_up_their_own_cuts_not_their_times() -> None:
    notes = Notes()
    for number in range(10_500):
        notes.reach({0: number})
        notes.add(number, number + 1)
    assert len(notes) == 10_001
    sent = notes.send(20_000, below=10_500)
    assert sent[-2:] == [(9_999, {0: 9_999}), (10_499, {0: 10_499})]


def test_a_report_beside_the_queue_stands_for_earlier_notes_too() -> None:
    notes = Notes()
    notes.reach({0: 5})
    notes.add(100)
    notes.accept_beside(200, {1: 6})
    assert (notes.send(10), notes.last_time) == ([], 200)
    notes.add(201)
    assert notes.send(10) == [(201, {0: 5, 1: 6})]
