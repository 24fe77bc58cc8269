"""Refusals of who asks."""

from typing import Literal

from tidegauge.errors.base import ProblemError, problem

_CURES = {
    "missing": (
        "no token was sent; set TIDEGAUGE_TOKEN or --token in a shell, give clients token=, or "
        "send the header `Authorization: Bearer TOKEN`"
    ),
    "repeated": "more than one header `Authorization` was sent; send one",
    "unknown": "the token is not known here; is it this service's, and was it withdrawn?",
    "expired": "the token has expired; `tidegauge token new` makes another",
}


@problem("unauthenticated", 401)
class UnauthenticatedError(ProblemError):
    """A call without a valid token."""

    reason: Literal["missing", "repeated", "unknown", "expired"]

    @property
    def detail(self) -> str:
        return _CURES[self.reason]


@problem("forbidden", 403)
class ForbiddenError(ProblemError):
    """The token is valid, and not for this."""

    token_name: str
    role: str
    scope: str

    @property
    def detail(self) -> str:
        return (
            f"token {self.token_name!r} may not do this in scope {self.scope!r}; it needs the "
            f"role {self.role} there, which whoever keeps the tokens of the service can grant"
        )
