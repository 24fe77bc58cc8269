"""The check of a table's history, as tests on Spark use it, finds each way to break it."""

import pytest

from tests.lake.laws import Version, check


def test_a_history_that_keeps_its_word_passes_and_so_does_one_that_counts_its_late_rows() -> (
    None
):
    check([Version([("a", 5)], 3), Version([("b", 3)], 3), Version([("c", 1)], 9, late=1)])


@pytest.mark.parametrize(
    ("second", "broken"),
    [
        (Version([("b", 2)], 3), "rows are behind a note"),
        (Version([("b", 3)], 4, late=1), "rows are behind a note"),
        (Version([("a", 5)], 4), "rows are in two versions"),
        (Version([("b", 5)], 2), "time falls"),
    ],
)
def test_a_history_that_breaks_a_law_is_found(second: Version, broken: str) -> None:
    with pytest.raises(AssertionError, match=broken):
        check([Version([("a", 5)], 3), second])
