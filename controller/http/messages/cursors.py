"""Opaque cursors of paged lists."""

import base64
from collections.abc import Callable
from typing import TypeVar

from tidegauge.errors import InvalidRequestError

_T = TypeVar("_T")


def write_cursor(last: str) -> str:
    """Make the cursor of the page after its last entry."""
    return base64.urlsafe_b64encode(last.encode()).decode()


def read_cursor(cursor: str | None, parse: Callable[[str], _T]) -> _T | None:
    """Read the last entry before a page back; None where a list begins."""
    if cursor is None:
        return None
    try:
        return parse(base64.b64decode(cursor, altchars=b"-_", validate=True).decode())
    except ValueError as error:
        message = "is no cursor of this list; send one from an answer, as it is"
        raise InvalidRequestError.of("cursor", message) from error
