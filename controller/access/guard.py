"""The caller of a request, by its token."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import time

from controller.access.callers import ANYBODY, NOBODY, Caller
from controller.access.changes import Rereading
from controller.access.needs import is_open
from controller.access.tokens import Digest, digest_of, read_tokens
from tidegauge.errors import UnauthenticatedError

_log = logging.getLogger(__name__)
_BEARER = b"bearer "
_MOST_SEEN = 10_000
"""A bound, since one token can be shown in any number of spellings."""


@dataclass(slots=True)
class _Tokens:
    """The tokens of one reading of the file, and the headers that showed them.

    Both are replaced together, so that a header seen while the file is read again is never
    remembered beyond it.
    """

    _callers: Mapping[Digest, Caller]
    _seen: dict[bytes, Caller] = field(default_factory=dict)
    """By the header's value: hashing it anew at every request would cost as much again."""

    def __len__(self) -> int:
        return len(self._callers)

    def find(self, header: bytes) -> Caller:
        """Return the caller that a header names; raises `UnauthenticatedError`."""
        known = self._seen.get(header)
        if known is not None:
            return known
        if header[:7].lower() != _BEARER:
            raise UnauthenticatedError("missing")
        caller = self._callers.get(digest_of(header[7:].strip()))
        if caller is None:
            raise UnauthenticatedError("unknown")
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[header] = caller
        return caller


class Guard:
    """Knows the tokens in force: those of the file, also after it changed.

    Without a file everybody may do everything. Raises `TokenFileError` if it cannot be read.
    """

    def __init__(self, path: Path | None, *, clock: Callable[[], float] = time) -> None:
        self._path = path
        self._clock = clock
        self._tokens = _Tokens({})
        self.check: Callable[[], None] = lambda: None
        """Reads the file again if it changed; while it cannot be read, the former tokens stay."""
        if path is not None:
            self.check = Rereading(
                path,
                read=lambda: _Tokens(read_tokens(path)),
                take=self._take,
                kept="the tokens read before stay in force",
            ).check
            self._tokens = _Tokens(read_tokens(path))

    def identify(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Caller:
        """Return the caller of a request; it carries one valid token, if it needs one."""
        if self._path is None:
            return ANYBODY
        if is_open(path):
            return NOBODY
        return self._caller(headers)

    def _caller(self, headers: Iterable[tuple[bytes, bytes]]) -> Caller:
        shown = [value for name, value in headers if name == b"authorization"]
        if len(shown) != 1:
            raise UnauthenticatedError("repeated" if shown else "missing")
        caller = self._tokens.find(shown[0])
        if caller.expires_s is not None and caller.expires_s <= self._clock():
            raise UnauthenticatedError("expired")
        return caller

    def _take(self, tokens: _Tokens) -> None:
        level = logging.INFO if len(tokens) or not len(self._tokens) else logging.WARNING
        self._tokens = tokens
        _log.log(level, "%d tokens read from %s", len(tokens), self._path)
