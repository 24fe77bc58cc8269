"""Who calls, and what that one may do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidegauge.errors import ForbiddenError

EVERYWHERE = "*"
"""Stands for all scopes in a grant."""


class Role(StrEnum):
    """What somebody may do in a scope; none includes another."""

    READ = "read"
    WRITE = "write"
    OPERATE = "operate"


_NO_ROLES: frozenset[Role] = frozenset()


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
        """Look up what the caller may do in a scope."""
        return self.grants.get(scope, self._elsewhere)

    def may(self, role: Role, scope: str) -> bool:
        """Whether the caller has a role in a scope."""
        return role in self.grants.get(scope, self._elsewhere)

    def check(self, role: Role, scope: str) -> None:
        """Raise `ForbiddenError` unless the caller has a role in a scope."""
        if role not in self.grants.get(scope, self._elsewhere):
            raise ForbiddenError(self.name, role, scope)


ANYBODY = Caller("anybody", {EVERYWHERE: frozenset(Role)})
"""Everybody, where the service has no tokens."""

NOBODY = Caller("nobody", {})
"""Who asks for something that needs no token."""
