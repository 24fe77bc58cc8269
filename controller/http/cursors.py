"""Opaque cursors of paged lists."""

import base64
import binascii

from tidegauge.errors import InvalidRequestError


def write_cursor(place: str) -> str:
    """Make the cursor of the page after a place."""
    return base64.urlsafe_b64encode(place.encode()).decode()


def read_cursor(cursor: str) -> str:
    """Read a cursor back.

    Raises
    ------
    InvalidRequestError
        If no answer contained it.
    """
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError) as error:
        message = "is no cursor of this list; send one from an answer, as it is"
        raise InvalidRequestError.of("cursor", message) from error
