"""Names of scopes, streams, writers, readers and groups, and the routing of keys."""

import hashlib
import re
from typing import NamedTuple, Self

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$"
INVALID_NAME = (
    "is not a valid name; use ASCII letters, digits, '-', '_' and '.', the first a letter or "
    "digit, at most 255"
)
"""What to say of a name that is none."""

_NAME = re.compile(NAME_PATTERN.removesuffix("$") + r"\Z", re.ASCII)
_HASH_BITS = 53


def check_name(name: str) -> str:
    """Return the name, or raise ``ValueError`` naming the rule that it breaks."""
    if _NAME.match(name):
        return name
    msg = f"{name!r} {INVALID_NAME}"
    raise ValueError(msg)


class StreamName(NamedTuple):
    """A stream's full name, written ``scope/stream``."""

    scope: str
    stream: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``scope/stream``; raises ``ValueError`` with the form that is expected."""
        return cls(*_parts(text, "stream", "scope/stream"))

    def __str__(self) -> str:
        return f"{self.scope}/{self.stream}"


def parse_group(text: str) -> StreamName:
    """Read ``scope/group``; raises ``ValueError`` with the form that is expected."""
    return StreamName(*_parts(text, "reader group", "scope/group"))


def _parts(text: str, kind: str, form: str) -> tuple[str, str]:
    scope, slash, name = text.partition("/")
    if not slash or "/" in name:
        msg = f"{text!r} names no {kind}; write {form}"
        raise ValueError(msg)
    return check_name(scope), check_name(name)


def key_hash(key: str) -> float:
    """Map a routing key to ``[0, 1)``, the same on every machine and in every version.

    The top 53 bits of BLAKE2b over the UTF-8 bytes, so that the float is exact.
    """
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> (64 - _HASH_BITS)) / (1 << _HASH_BITS)
