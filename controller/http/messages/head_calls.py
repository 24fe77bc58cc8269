"""HEAD is GET without the body: the same code answers both, and the server leaves the body out."""

from starlette.types import Scope

_GET, _HEAD = "GET", "HEAD"
_IS_HEAD = "tidegauge.head"


def as_get(scope: Scope) -> Scope:
    """Make a HEAD request the GET request that it is answered like; the server still knows."""
    return {**scope, "method": _GET, _IS_HEAD: True} if scope["method"] == _HEAD else scope


def is_head(scope: Scope) -> bool:
    """Whether nobody will see the body of the answer."""
    return _IS_HEAD in scope


def method_of(scope: Scope) -> str:
    """Tell the method as it came."""
    method: str = scope["method"]
    return _HEAD if is_head(scope) else method


def with_head(methods: set[str]) -> set[str]:
    """Add HEAD to the methods of a path, where it is answered."""
    return methods | {_HEAD} if _GET in methods else methods
