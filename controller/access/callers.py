"""Callers and what they may do; what operators did, or others in their place, in the log."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from starlette.types import Scope

from tidegauge.errors import ForbiddenError

EVERYWHERE = "*"
"""Stands for all scopes in a grant."""
_PLACE = re.compile(r"/v1/streams/(?P<stream>[^/]+/[^/]+)(?:/writers/(?P<writer>[^/]+))?")


class Role(StrEnum):
    """What somebody may do in a scope; none includes another."""

    READ = "read"
    OBSERVE = "observe"
    WRITE = "write"
    OPERATE = "operate"


_NO_ROLES: frozenset[Role] = frozenset()
_SEEING = frozenset({Role.READ, Role.OBSERVE})


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a token of that name; by the wall clock it may expire."""

    name: str
    grants: Mapping[str, frozenset[Role]]
    """Scope to roles; those of `EVERYWHERE` hold in all scopes, named or not."""
    expires_s: float | None = None
    _elsewhere: frozenset[Role] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        elsewhere = self.grants.get(EVERYWHERE, _NO_ROLES)
        object.__setattr__(self, "_elsewhere", elsewhere)
        merged = {scope: roles | elsewhere for scope, roles in self.grants.items()}
        object.__setattr__(self, "grants", merged)

    def roles(self, scope: str) -> frozenset[Role]:
        """Return what the caller may do in a scope."""
        return self.grants.get(scope, self._elsewhere)

    def may_see(self, scope: str) -> bool:
        """Return whether the caller may read all of a scope but events."""
        return not _SEEING.isdisjoint(self.roles(scope))

    def check_sees(self, scope: str) -> None:
        """Raise `ForbiddenError` unless the caller may read all of a scope but events."""
        if not self.may_see(scope):
            raise ForbiddenError(self.name, " or ".join(sorted(_SEEING, reverse=True)), scope)

    def check(self, role: Role, scope: str) -> None:
        """Raise `ForbiddenError` unless the caller has a role in a scope."""
        if role not in self.grants.get(scope, self._elsewhere):
            raise ForbiddenError(self.name, role, scope)


ANYBODY = Caller("anybody", {EVERYWHERE: frozenset(Role)})
"""Everybody, where the service has no tokens."""

NOBODY = Caller("nobody", {})
"""The caller of what needs no token."""

# Where callers have names it is there at any level of the log, since `--log-level` is chosen by how
# much of the service's own doings one wants to read. Of a token only the name is logged.
_nameless = logging.getLogger(__name__)
_named = logging.getLogger(f"{__name__}.named")
_named.setLevel(logging.INFO)


def log_done(caller: Caller, status: int, scope: Scope) -> None:
    """Log a call of an operator that was answered."""
    log = _nameless if caller is ANYBODY else _named
    known = {"caller": caller.name, "status": status}
    log.info("operator call", extra={**known, **request_fields(scope)})


def log_refused(caller: Caller, scope: Scope) -> None:
    """Log a call that only operators may make, and its caller may not."""
    known = {"caller": caller.name, "status": ForbiddenError.status}
    _named.warning("operator call refused", extra={**known, **request_fields(scope)})


def request_fields(scope: Scope) -> dict[str, str]:
    """Return the method and the path of a request, and the stream and the writer in it."""
    path: str = scope["path"]
    place = _PLACE.match(path)
    named = place.groupdict() if place is not None else {}
    known = {name: value for name, value in named.items() if value is not None}
    return {"method": scope["method"], "path": path, **known}
