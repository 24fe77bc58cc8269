"""What each call needs. A call that is not listed cannot be served at all."""

from collections.abc import Mapping
from enum import Enum

from controller.access.callers import EVERYWHERE, Caller, Role
from tidegauge.errors import ForbiddenError

DOCUMENTATION = "/docs"
DOCUMENTATION_ASSETS = "/docs/assets"
FRONT_PAGE = "/"
PAGE_FILES = "/ui"
_OPEN_PATHS = frozenset(
    [
        FRONT_PAGE,
        "/healthz",
        "/readyz",
        "/openapi.json",
        DOCUMENTATION,
        f"{DOCUMENTATION_ASSETS}/favicon.png",
        f"{DOCUMENTATION_ASSETS}/swagger-ui-bundle.js",
        f"{DOCUMENTATION_ASSETS}/swagger-ui.css",
    ]
)


def is_open(path: str) -> bool:
    """Return whether a path needs no token: what load balancers ask, the documentation, the page."""
    return path in _OPEN_PATHS or path.startswith(f"{PAGE_FILES}/")


class Need(Enum):
    """What a caller needs; the value says it in the documentation."""

    NOTHING = "Needs no token."
    TOKEN = "Needs a token; each entry is checked, or left out, by the roles in its own scope."  # noqa: S105 (no secret)
    ANY_ROLE = "Needs any role in the scope."
    READ = "Needs the role `read` in the scope."
    WRITE = "Needs the role `write` in the scope."
    OPERATE = "Needs the role `operate` in the scope."
    SEE = "Needs the role `read` or `observe` in the scope."
    SEE_EVERYWHERE = "Needs the role `read` or `observe` in all scopes (`*`)."

    def check(self, caller: Caller, scope: str) -> None:
        """Raise `ForbiddenError` unless a caller has what is needed in a scope."""
        if self in _ROLES:
            caller.check(_ROLES[self], scope)
        elif self is Need.SEE:
            caller.check_sees(scope)
        elif self is Need.SEE_EVERYWHERE:
            caller.check_sees(EVERYWHERE)
        elif self is Need.ANY_ROLE and not caller.roles(scope):
            raise ForbiddenError(caller.name, _ANY, scope)


_ANY = "read, observe, write or operate"
_ROLES = {Need.READ: Role.READ, Need.WRITE: Role.WRITE, Need.OPERATE: Role.OPERATE}

_STREAM = "/v1/streams/{scope}/{stream}"
_WRITER = _STREAM + "/writers/{writer}"
_TRANSACTION = _STREAM + "/transactions/{transaction}"
_GROUP = "/v1/reader-groups/{scope}/{group}"
_READER = _GROUP + "/readers/{reader}"

NEEDS: Mapping[str, Need] = {
    f"GET {FRONT_PAGE}": Need.NOTHING,
    "GET /healthz": Need.NOTHING,
    "GET /readyz": Need.NOTHING,
    "GET /metrics": Need.SEE_EVERYWHERE,
    "GET /v1/streams": Need.TOKEN,
    f"PUT {_STREAM}": Need.OPERATE,
    f"GET {_STREAM}": Need.ANY_ROLE,
    f"PATCH {_STREAM}": Need.OPERATE,
    f"DELETE {_STREAM}": Need.OPERATE,
    f"POST {_STREAM}/scale": Need.OPERATE,
    f"POST {_STREAM}/truncate": Need.OPERATE,
    f"POST {_STREAM}/seal": Need.OPERATE,
    f"GET {_STREAM}/watermark": Need.ANY_ROLE,
    f"GET {_STREAM}/tail": Need.SEE,
    f"GET {_STREAM}/marks": Need.SEE,
    f"GET {_STREAM}/marks/at": Need.SEE,
    f"GET {_STREAM}/marks/history": Need.SEE,
    f"GET {_STREAM}/holds": Need.ANY_ROLE,
    "GET /v1/holds": Need.TOKEN,
    f"POST {_STREAM}/events": Need.WRITE,
    f"POST {_STREAM}/segments/{{segment}}/events": Need.WRITE,
    f"GET {_STREAM}/segments/{{segment}}/events": Need.READ,
    f"GET {_STREAM}/transactions": Need.ANY_ROLE,
    f"POST {_STREAM}/transactions": Need.WRITE,
    f"GET {_TRANSACTION}": Need.ANY_ROLE,
    f"POST {_TRANSACTION}/segments/{{segment}}/events": Need.WRITE,
    f"POST {_TRANSACTION}/events": Need.WRITE,
    f"POST {_TRANSACTION}/ping": Need.WRITE,
    f"POST {_TRANSACTION}/commit": Need.WRITE,
    f"POST {_TRANSACTION}/abort": Need.WRITE,
    f"POST {_STREAM}/batches/{{number}}": Need.WRITE,
    f"GET {_STREAM}/writers": Need.ANY_ROLE,
    f"GET {_WRITER}": Need.ANY_ROLE,
    f"POST {_WRITER}/register": Need.WRITE,
    f"POST {_WRITER}/note-time": Need.WRITE,
    f"POST {_WRITER}/leave": Need.WRITE,
    f"POST {_WRITER}/expire": Need.OPERATE,
    "POST /v1/note-times": Need.TOKEN,
    "GET /v1/reader-groups": Need.TOKEN,
    f"PUT {_GROUP}": Need.READ,
    f"GET {_GROUP}": Need.SEE,
    f"DELETE {_GROUP}": Need.OPERATE,
    f"GET {_GROUP}/state": Need.SEE,
    f"PUT {_GROUP}/state": Need.READ,
    f"GET {_GROUP}/time-window": Need.SEE,
    f"POST {_GROUP}/progress": Need.READ,
    f"POST {_READER}": Need.READ,
    f"POST {_READER}/position": Need.READ,
    f"POST {_READER}/heartbeat": Need.READ,
    f"DELETE {_READER}": Need.READ,
}
"""Method and path of each call, and what it needs."""
