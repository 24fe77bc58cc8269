"""Marks are found however many of the old ones were removed, and however short pages are."""

import asyncio

import pytest

from tidegauge.wire.streams import MarkInfo
from tidegauge_cli.mark_pages import PAGE, first_marks, last_before, newest_marks

THINNED = [1, 236, 476, 716, 800]
DENSE_BELOW_A_GAP = [*range(1, 5_001), 20_000]


class _Stream:
    """Marks of some revisions, and how often they were asked for."""

    def __init__(self, revisions: list[int], *, page: int = PAGE) -> None:
        self.revisions = revisions
        self.page = page
        self.asked = 0

    async def read(self, after: int, most: int = PAGE) -> list[MarkInfo]:
        self.asked += 1
        return [
            MarkInfo(
                revision=one, lower=one, upper=one, cut={}, marked_ms=10 * one, final=False
            )
            for one in self.revisions
            if one > after
        ][: min(self.page, most)]

    def newest(self, limit: int, *, revision: int | None = None) -> list[int]:
        known = (self.revisions or [0])[-1] if revision is None else revision
        found = asyncio.run(newest_marks(self.read, revision=known, limit=limit))
        return [one.revision for one in found]

    def before(self, moment_ms: int) -> int:
        return asyncio.run(last_before(self.read, moment_ms, revision=self.revisions[-1]))

    def first(self, limit: int, *, after: int) -> list[int]:
        found = asyncio.run(first_marks(self.read, after=after, limit=limit))
        return [one.revision for one in found]


@pytest.mark.parametrize(
    ("revisions", "limit", "wanted", "asked"),
    [
        ([], 20, [], 0),
        (THINNED, 20, THINNED, 6),
        (THINNED, 2, [716, 800], 6),
        ([*range(1, 10_001)], 20, [*range(9_981, 10_001)], 1),
        (DENSE_BELOW_A_GAP, 3, [4_999, 5_000, 20_000], 15),
        ([1, 10_000_000], 20, [1, 10_000_000], 19),
    ],
)
def test_the_newest_marks_that_are_left_are_found_in_a_few_steps(
    revisions: list[int], limit: int, wanted: list[int], asked: int
) -> None:
    stream = _Stream(revisions)
    assert stream.newest(limit) == wanted
    assert stream.asked == asked


@pytest.mark.parametrize(
    ("moment_ms", "before"), [(0, 0), (10, 0), (11, 1), (2_360, 1), (2_361, 236), (9_999, 800)]
)
def test_marks_made_since_a_moment_begin_behind_the_last_one_before_it(
    moment_ms: int, before: int
) -> None:
    stream = _Stream(THINNED)
    assert stream.before(moment_ms) == before
    assert stream.asked <= 10


@pytest.mark.parametrize("page", [1, 5, 12, PAGE])
def test_pages_that_are_shorter_than_asked_for_hide_no_marks(page: int) -> None:
    dense = _Stream([*range(1, 101)], page=page)
    assert dense.newest(50) == [*range(51, 101)]
    assert dense.first(50, after=3) == [*range(4, 54)]
    assert dense.first(50, after=80) == [*range(81, 101)]
    assert _Stream(THINNED, page=page).newest(20) == THINNED
    assert _Stream(THINNED, page=page).first(20, after=1) == THINNED[1:]
