"""The newest marks are found however many of the old ones were removed, in a few steps."""

import asyncio

import pytest

from tidegauge.wire.streams import MarkInfo
from tidegauge_cli.newest import PAGE, newest_marks

THINNED = [1, 236, 476, 716, 800]
DENSE_BELOW_A_GAP = [*range(1, 5_001), 20_000]


class _Stream:
    """Marks of some revisions, and how often they were asked for."""

    def __init__(self, revisions: list[int]) -> None:
        self.revisions = revisions
        self.asked = 0

    async def read(self, after: int) -> list[MarkInfo]:
        self.asked += 1
        return [
            MarkInfo(revision=one, lower=one, upper=one, cut={}, final=False)
            for one in self.revisions
            if one > after
        ][:PAGE]

    def newest(self, limit: int, *, revision: int | None = None) -> list[int]:
        known = (self.revisions or [0])[-1] if revision is None else revision
        found = asyncio.run(newest_marks(self.read, revision=known, limit=limit))
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


def test_marks_that_are_made_meanwhile_push_none_out() -> None:
    assert _Stream([*THINNED, 801, 802]).newest(20, revision=800) == THINNED
