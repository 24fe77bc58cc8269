"""Who may do what: bearer tokens with roles in scopes, kept as hashes in a file."""

from controller.access.callers import ANYBODY, EVERYWHERE, Caller, Role
from controller.access.encryption import CertificateError, check_certificate
from controller.access.exposure import ExposedError, check_exposure
from controller.access.guard import Guard
from controller.access.needs import NEEDS, OPEN_PATHS, Need
from controller.access.tokens import (
    Grants,
    NewToken,
    TokenFile,
    TokenFileError,
    append_token,
    new_token,
    parse_grants,
    read_tokens,
)

__all__ = [
    "ANYBODY",
    "EVERYWHERE",
    "NEEDS",
    "OPEN_PATHS",
    "Caller",
    "CertificateError",
    "ExposedError",
    "Grants",
    "Guard",
    "Need",
    "NewToken",
    "Role",
    "TokenFile",
    "TokenFileError",
    "append_token",
    "check_certificate",
    "check_exposure",
    "new_token",
    "parse_grants",
    "read_tokens",
]
