"""Who may do what: bearer tokens with roles in scopes, kept as hashes in a file."""

from controller.access.audit import log_done, log_refused
from controller.access.callers import ANYBODY, EVERYWHERE, NOBODY, Caller, Role
from controller.access.changes import watch
from controller.access.encryption import Authorities, Certificate, CertificateError
from controller.access.guard import Guard
from controller.access.needs import (
    DOCUMENTATION,
    DOCUMENTATION_ASSETS,
    FRONT_PAGE,
    NEEDS,
    OPEN_PATHS,
    Need,
    operates,
)
from controller.access.tokens import (
    Grants,
    NewToken,
    TokenFile,
    TokenFileError,
    append_token,
    new_token,
    parse_grants,
    read_tokens,
    redacted,
)

__all__ = [
    "ANYBODY",
    "DOCUMENTATION",
    "DOCUMENTATION_ASSETS",
    "EVERYWHERE",
    "FRONT_PAGE",
    "NEEDS",
    "NOBODY",
    "OPEN_PATHS",
    "Authorities",
    "Caller",
    "Certificate",
    "CertificateError",
    "Grants",
    "Guard",
    "Need",
    "NewToken",
    "Role",
    "TokenFile",
    "TokenFileError",
    "append_token",
    "log_done",
    "log_refused",
    "new_token",
    "operates",
    "parse_grants",
    "read_tokens",
    "redacted",
    "watch",
]
