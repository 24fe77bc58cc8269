"""The names of buckets, by which Spark places them in the partitions of a shuffle.

Spark places a bucket by a hash of its name, so a few that are named 0, 1, 2, … lie unevenly, and
one task has most of the work. The buckets of the default have names that lie evenly. A number that
the user gives keeps the names from 0 on: many lie evenly, and running queries find their state.
"""

from collections.abc import Sequence
from functools import cache
from itertools import count

from pyspark import TaskContext

# A bucket costs 2 to 11 ms of processor time a batch; of two, one has work if the other has none.
_BUCKETS_A_PARTITION = 2

# Of the state: unlike spark.sql.shuffle.partitions, it is fixed by the first start of a query.
_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"

_WORD = 0xFFFF_FFFF


def names_of_buckets(buckets: int | None) -> Sequence[int]:
    """Return the names of so many buckets, or of the default's, in a task of the query."""
    return range(buckets) if buckets else even_names(_partitions())


def saved_number(buckets: int | None) -> int:
    """Return what state remembers of the buckets: the negative number for the default's names."""
    return buckets or -_BUCKETS_A_PARTITION * _partitions()


def number_in_words(saved: int) -> int | str:
    """Return what the user gave for a saved number."""
    return saved if saved > 0 else f"the default, {-saved}"


@cache
def even_names(partitions: int) -> Sequence[int]:
    """Name bucket n by the next integer that Spark places in partition n modulo their number."""
    names: list[list[int]] = [[] for _ in range(partitions)]
    missing = partitions * _BUCKETS_A_PARTITION
    integers = count()
    while missing:
        name = next(integers)
        of_partition = names[_partition_of(name, partitions)]
        if len(of_partition) < _BUCKETS_A_PARTITION:
            of_partition.append(name)
            missing -= 1
    return [name for of_rank in zip(*names, strict=True) for name in of_rank]


def _partition_of(name: int, partitions: int) -> int:
    """Return where Spark places an int: by Murmur3 of one word, with the seed 42."""
    mixed = _rotated(name * 0xCC9E_2D51, 15) * 0x1B87_3593
    mixed = (_rotated(42 ^ mixed, 13) * 5 + 0xE654_6B64) & _WORD ^ 4
    mixed = (mixed ^ mixed >> 16) * 0x85EB_CA6B & _WORD
    mixed = (mixed ^ mixed >> 13) * 0xC2B2_AE35 & _WORD
    mixed ^= mixed >> 16
    signed = mixed - (1 << 32) if mixed >> 31 else mixed
    return signed % partitions


def _rotated(number: int, bits: int) -> int:
    word = number & _WORD
    return (word << bits | word >> 32 - bits) & _WORD


def _partitions() -> int:
    context = TaskContext.get()
    partitions = context and context.getLocalProperty(_PARTITIONS)
    assert partitions  # noqa: S101 (Spark gives it to the tasks of a query)
    return int(partitions)
