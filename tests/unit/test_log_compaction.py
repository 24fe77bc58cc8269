"""Which chunks are worth merging."""

from controller.log.compaction import next_run, settled_before
from controller.log.storage import ChunkRow

TINY, SMALL, LARGE = 500, 10_000, 200_000


def rows(*sizes: int) -> list[ChunkRow]:
    return [ChunkRow(10 * at, 10, None, size) for at, size in enumerate(sizes)]


def offsets(run: object) -> list[int]:
    return [row.first_offset for row in run]  # type: ignore[attr-defined]


def test_fewer_than_sixteen_small_chunks_stay() -> None:
    assert next_run(rows(*[TINY] * 15)) == []
    assert offsets(next_run(rows(*[TINY] * 16))) == list(range(0, 160, 10))


def test_large_chunks_stay_and_part_the_small_ones() -> None:
    assert next_run(rows(*[TINY] * 15, LARGE, *[TINY] * 15)) == []
    run = next_run(rows(*[TINY] * 3, LARGE, *[SMALL] * 20))
    assert offsets(run) == list(range(40, 240, 10))


def test_tiny_chunks_are_merged_among_themselves_first() -> None:
    run = next_run(rows(*[SMALL] * 17, *[TINY] * 16))
    assert offsets(run) == list(range(170, 330, 10))


def test_a_merged_chunk_is_never_more_than_a_full_one() -> None:
    run = next_run(rows(*[60_000] * 40))
    assert sum(row.size for row in run) <= 1_048_576
    assert len(run) == 17
    many = [ChunkRow(4_000 * at, 4_000, None, TINY) for at in range(40)]
    assert sum(row.events for row in next_run(many)) == 64_000


def test_what_lies_before_the_last_large_chunk_is_settled() -> None:
    assert settled_before(rows(TINY, LARGE, TINY, TINY), 0) == 20
    assert settled_before(rows(TINY, TINY), 7) == 7
