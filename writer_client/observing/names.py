"""Names of the writers that an observer speaks for: ``PARTITION`` or ``VALUE.PARTITION``."""

import hashlib
import re

_PLAIN = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_KEPT = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-")
_ESCAPED, _HASHED = "x--", "y--"
_NO_VALUE = f"{_ESCAPED}_none"
"""Unlike any escaped value: no byte is written ``_no``."""
_LONGEST = 200
"""Leaves room for the partition within the 255 characters of a name, and for a service's own limit."""


def writer_of(value: bytes | None, partition: int) -> str:
    """Make the writer of a value in a partition; different values have different writers.

    A value that is a valid name stays as it is. In others, and in those that begin with ``x--``
    or ``y--``, each byte but ASCII letters, digits, ``.`` and ``-`` becomes ``_`` and two
    hexadecimal digits, after ``x--``. What is longer than 200 characters then is ``y--`` and its
    SHA-256. No value at all is ``x--_none``.

    Examples
    --------
    >>> writer_of(b"api-1", 3), writer_of("Zürich 7".encode(), 0), writer_of(None, 0)
    ('api-1.3', 'x--Z_c3_bcrich_207.0', 'x--_none.0')
    """
    return f"{value_name(value)}.{partition}"


def value_name(value: bytes | None) -> str:
    """Make the part of a writer's name that is made of a value."""
    if value is None:
        return _NO_VALUE
    plain = value.decode("ascii") if _PLAIN.match(value) else ""
    is_free = plain and not plain.startswith((_ESCAPED, _HASHED))
    name = plain if is_free else _ESCAPED + "".join(map(_escaped, value))
    return name if len(name) <= _LONGEST else _HASHED + hashlib.sha256(value).hexdigest()


def _escaped(byte: int) -> str:
    return chr(byte) if byte in _KEPT else f"_{byte:02x}"
