"""How streams are shared out among controllers."""

from hypothesis import given
from hypothesis import strategies as st

from controller.cluster.shared import shares


def test_a_newcomer_gets_its_share_from_those_who_have_most() -> None:
    assert shares({1: 5, 2: 0}, 5) == {1: 3, 2: 2}
    assert shares({1: 3, 2: 3, 3: 0}, 6) == {1: 2, 2: 2, 3: 2}


def test_what_nobody_holds_goes_to_those_who_have_least() -> None:
    assert shares({1: 2, 2: 2}, 6) == {1: 3, 2: 3}
    assert shares({7: 0}, 4) == {7: 4}


def test_who_is_as_even_as_can_be_keeps_what_he_has() -> None:
    assert shares({1: 2, 2: 3, 3: 2}, 7) == {1: 2, 2: 3, 3: 2}


@given(st.dictionaries(st.integers(1, 50), st.integers(0, 20), min_size=1), st.integers(0, 20))
def test_shares_add_up_differ_by_one_at_most_and_move_as_little_as_can_be(
    held: dict[int, int], free: int
) -> None:
    total = sum(held.values()) + free
    shared = shares(held, total)
    assert sum(shared.values()) == total
    assert max(shared.values()) - min(shared.values()) <= 1
    given_up = sum(max(0, held[one] - shared[one]) for one in held)
    fewest, more = divmod(total, len(held))
    least = sum(max(0, count - fewest - 1) for count in held.values())
    above = sum(count > fewest for count in held.values())
    assert given_up == least + max(0, above - more)
