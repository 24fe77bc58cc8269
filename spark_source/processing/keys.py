"""Keys: their one form, their order, and the buckets that hold their state.

A key is itself whatever the session's zone, the version of Python and the bits it came in. Its
bucket is the CRC-32 of these bytes, modulo the number of buckets:

===================  ==================================================================
null                 none
string               UTF-8
binary               the bytes
integer, boolean     decimal digits; 1 is true
float, double        those of the double, big-endian; 0.0 for -0.0, one NaN for all
decimal              ``n/d`` in decimal digits and lowest terms: ``3/2`` for 1.50
timestamp            decimal digits of the microseconds since 1970 in UTC
timestamp_ntz        the same, as if its zone were UTC
date                 decimal digits of the days since 1970
time, interval       decimal digits of the microseconds, of a time since midnight
struct               of each field, in order, the number of its bytes, ``:`` and its bytes
===================  ==================================================================
"""

from collections.abc import Hashable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import nan
from struct import pack
from typing import Any, TypeAlias
from zlib import crc32

Key: TypeAlias = Hashable
"""A key: null, or a value of one type that has an order."""

Row: TypeAlias = tuple[Any, ...]
"""Key, event time in microseconds, segment, offset, and the columns that the operator has."""

SELF_CANONICAL = frozenset({str, int, bool, bytes, Decimal, date, type(None)})
"""The types whose values have one form."""

_DAY_0 = date(1970, 1, 1)
_EPOCH_NTZ = datetime(1970, 1, 1)  # noqa: DTZ001 (of times without a zone)
_EPOCH = _EPOCH_NTZ.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def canonical(key: Key) -> Key:
    """Return a key in its one form, by which equal keys are equal in Python too.

    Python compares timestamps of one zone by the wall clock, which shows an hour twice where
    clocks go back, and takes each NaN for another one.
    """
    if type(key) in SELF_CANONICAL:
        return key
    if isinstance(key, float):
        return key + 0.0 if key == key else nan  # noqa: PLR0124 (only NaN is not itself)
    if isinstance(key, datetime) and key.tzinfo is not None:
        return key.astimezone(UTC)
    if isinstance(key, tuple):
        return tuple(map(canonical, key))
    return key


def bucket_of(key: Key, buckets: int) -> int:
    """Choose the bucket of a key; the docstring of the module says how.

    Raises
    ------
    TypeError
        If the key is of a type that has no form here.
    """
    return crc32(_written(key)) % buckets


def key_order(key: Key) -> tuple[bool, bool, Any]:
    """Order keys: null first, and NaN behind all numbers."""
    if isinstance(key, tuple):
        return True, False, tuple(map(key_order, key))
    return key is not None, key != key, key  # noqa: PLR0124 (as above)


def _written(key: Key) -> bytes:  # noqa: PLR0911 (a line for each type)
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, int):
        return b"%d" % key
    if isinstance(key, float):
        return pack(">d", canonical(key))
    if isinstance(key, bytes):
        return key
    if key is None:
        return b""
    if isinstance(key, tuple):
        return b"".join(b"%d:%b" % (len(part), part) for part in map(_written, key))
    if isinstance(key, Decimal):
        return b"%d/%d" % key.as_integer_ratio()
    return b"%d" % _number_of(key)


def _number_of(key: Key) -> int:
    """Count days or microseconds."""
    if isinstance(key, datetime):
        return (key - (_EPOCH if key.tzinfo else _EPOCH_NTZ)) // _MICROSECOND
    if isinstance(key, date):
        return (key - _DAY_0).days
    if isinstance(key, time):
        return _number_of(datetime.combine(_DAY_0, key))
    if isinstance(key, timedelta):
        return key // _MICROSECOND
    msg = (
        f"key {key!r} is a {type(key).__name__}, which has no bucket; cast the column to string"
    )
    raise TypeError(msg)
