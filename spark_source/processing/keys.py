"""Keys, their order and the buckets that hold their state."""

from collections.abc import Hashable
from typing import Any, TypeAlias
from zlib import crc32

Key: TypeAlias = Hashable
"""A key: null, or a value of one type that has an order."""

Row: TypeAlias = tuple[Any, ...]
"""Key, event time in microseconds, segment, offset, and the columns that the operator has."""


def bucket_of(key: Key, buckets: int) -> int:
    """Choose the bucket of a key, the same in every process, as Python's own hash is not."""
    return crc32(repr(key).encode()) % buckets


def key_order(key: Key) -> tuple[bool, Any]:
    """Order keys, null first."""
    return key is not None, key
