"""What operators may have done, where no route tells what became of their call."""

from starlette.types import Scope

from controller.access import NOBODY, Caller, Role, log_done, operates
from controller.http.messages.request_fields import request_fields
from tidegauge.errors import OutcomeUnknownError


def log_lost(scope: Scope) -> None:
    """Log a call that is answered with 502, if it is an operator's; who is none did nothing."""
    if not operates(scope["method"], scope["path"]):
        return
    caller: Caller = scope.get("user", NOBODY)  # who is refused may have no name
    _, _, _, named, *_ = scope["path"].split("/")
    if caller.may(Role.OPERATE, named):
        log_done(caller, OutcomeUnknownError.status, request_fields(scope))
