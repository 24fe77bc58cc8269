"""The file of tokens: names, hashes, grants and ends; never a token itself.

A token is 32 random bytes, so its SHA-256 is as hard to turn back as a slow hash of a password
would be, and a lookup costs a microsecond.
"""

import hashlib
import os
import re
import secrets
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

import tomlkit
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from controller.access.callers import EVERYWHERE, Caller, Role
from tidegauge.errors import TidegaugeError
from tidegauge.names import check_name
from tidegauge.wire.values import Name

_PREFIX = "tg_"
"""Lets scanners for secrets know one."""

_SECRET = re.compile(rf"{_PREFIX}[\w-]+", re.ASCII)
_REDACTED = f"{_PREFIX}…"
_RANDOM_BYTES = 32
_OWNER_ONLY = 0o600

Digest: TypeAlias = bytes
Scope = Name | Annotated[str, StringConstraints(pattern=r"^\*$")]
Grants = Annotated[dict[Scope, Annotated[set[Role], Field(min_length=1)]], Field(min_length=1)]


def redacted(text: str) -> str:
    """Replace the tokens in a text."""
    return _SECRET.sub(_REDACTED, text)


class TokenFileError(TidegaugeError):
    """The file of tokens cannot be read, or says what cannot be.

    A token in the reason is replaced, as in the message: one that was pasted as a key, a scope or
    a path would come to light otherwise.
    """

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = redacted(reason)
        super().__init__(f"tokens in {redacted(str(path))}: {self.reason}")


class _Strict(BaseModel):
    # A token that was pasted into the wrong line must not come to light in an error.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class StoredToken(_Strict):
    """One token, as it is kept."""

    name: Name
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    grants: Grants
    created: AwareDatetime | None = None
    expires: AwareDatetime | None = None

    def caller(self) -> Caller:
        """Make the caller that shows this token."""
        grants = {scope: frozenset(roles) for scope, roles in self.grants.items()}
        expires_s = None if self.expires is None else self.expires.timestamp()
        return Caller(self.name, grants, expires_s)


class TokenFile(_Strict):
    """A file of tokens."""

    token: list[StoredToken] = []


class NewToken(NamedTuple):
    """A token that was just made; its text is known here, and nowhere else."""

    text: str
    stored: StoredToken

    def __repr__(self) -> str:
        return f"NewToken({self.stored.name!r})"


def digest_of(token: bytes) -> Digest:
    """Hash a token."""
    return hashlib.sha256(token).digest()


def read_tokens(path: Path) -> dict[Digest, Caller]:
    """Read a file of tokens, each with a name and a hash of its own; raises `TokenFileError`."""
    tokens = _parse(path, _read(path)).token
    seen: dict[tuple[str, str], StoredToken] = {}
    for one in tokens:
        for value in (("name", one.name), ("sha256", one.sha256)):
            if (former := seen.setdefault(value, one)) is not one:
                raise TokenFileError(path, f"token {former.name!r} is there twice")
    return {bytes.fromhex(one.sha256): one.caller() for one in tokens}


def new_token(name: str, grants: dict[str, set[Role]], *, lasts: timedelta | None) -> NewToken:
    """Make a token at random; raises `ValueError` for what is no name, scope or grant."""
    for one in (name, *grants.keys() - {EVERYWHERE}):
        check_name(one)
    text = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    created = datetime.now(UTC).replace(microsecond=0)
    stored = StoredToken(
        name=name,
        sha256=digest_of(text.encode()).hex(),
        grants=grants,
        created=created,
        expires=None if lasts is None else created + lasts,
    )
    return NewToken(text, stored)


def parse_grants(texts: Iterable[str]) -> dict[str, set[Role]]:
    """Read grants, each written ``scope:role,role``; raises `ValueError`."""
    grants: dict[str, set[Role]] = {}
    for text in texts:
        scope, _, roles = text.partition(":")
        try:
            given = {Role(role) for role in roles.split(",")}
        except ValueError as error:
            msg = f"{text!r} is not a grant; write SCOPE:ROLES, with some of {', '.join(Role)}"
            raise ValueError(msg) from error
        grants.setdefault(scope, set()).update(given)
    return grants


def append_token(path: Path, stored: StoredToken) -> None:
    """Add a token to a file, which is made if it is not there; what it holds stays as it is."""
    fields = stored.model_dump(exclude={"grants"}, exclude_none=True)
    fields["grants"] = {scope: sorted(roles) for scope, roles in stored.grants.items()}
    addition = tomlkit.dumps({"token": [fields]})
    with _file_errors(path):
        if path.exists():
            text = _read(path)
            if any(one.name == stored.name for one in _parse(path, text).token):
                reason = f"there is a token {stored.name!r} already; delete it first"
                raise TokenFileError(path, reason)
            try:
                _parse(path, f"{text}\n{addition}")
            except TokenFileError as error:
                reason = (
                    "nothing can be added while it does not list tokens as [[token]] "
                    f"({error.reason})"
                )
                raise TokenFileError(path, reason) from error
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _OWNER_ONLY)
        with os.fdopen(descriptor, "ab") as file:
            file.write(f"\n{addition}".encode())


def _read(path: Path) -> str:
    with _file_errors(path):
        if path.exists() and not path.is_file():
            reason = "this is not a regular file, so reading it may block"
            raise TokenFileError(path, reason)
        return path.read_text()


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TokenFileError(path, error.strerror or str(error)) from error
    except UnicodeError as error:
        raise TokenFileError(path, str(error)) from error


def _parse(path: Path, text: str) -> TokenFile:
    try:
        return TokenFile.model_validate(tomllib.loads(text))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise TokenFileError(path, f"{field}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise TokenFileError(path, str(error)) from error
