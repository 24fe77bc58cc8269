"""What the scope of a request says: whether it is HEAD, and what is logged of it.

HEAD is GET without the body: the same code answers both, and the server leaves the body out.
"""

import re

from starlette.types import Scope

from controller.access.callers import NOBODY, Caller, Role, log_done
from controller.access.needs import operates
from tidegauge.errors import OutcomeUnknownError

_IS_HEAD = "tidegauge.head"
_PLACE = re.compile(r"/v1/streams/(?P<stream>[^/]+/[^/]+)(?:/writers/(?P<writer>[^/]+))?")


def as_get(scope: Scope) -> Scope:
    """Make a HEAD request the GET request that it is answered like; the server still knows."""
    return {**scope, "method": "GET", _IS_HEAD: True} if scope["method"] == "HEAD" else scope


def is_head(scope: Scope) -> bool:
    """Return whether nobody will see the body of the answer."""
    return _IS_HEAD in scope


def method_of(scope: Scope) -> str:
    """Return the method as it came."""
    method: str = scope["method"]
    return "HEAD" if is_head(scope) else method


def request_fields(scope: Scope) -> dict[str, str]:
    """Return the method and the path of a request, and the stream and the writer in it."""
    path: str = scope["path"]
    place = _PLACE.match(path)
    named = place.groupdict() if place is not None else {}
    known = {name: value for name, value in named.items() if value is not None}
    return {"method": method_of(scope), "path": path, **known}


def log_lost(scope: Scope) -> None:
    """Log a call that is answered with 502, if it is an operator's.

    Where no route tells what became of it, an operator may have done it.
    """
    if not operates(scope["method"], scope["path"]):
        return
    caller: Caller = scope.get("user", NOBODY)  # a refused caller may have no name
    _, _, _, named, *_ = scope["path"].split("/")
    if caller.may(Role.OPERATE, named):
        log_done(caller, OutcomeUnknownError.status, request_fields(scope))
