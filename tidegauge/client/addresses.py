"""Addresses of services, and the bearer tokens that are sent there."""

import re
from urllib.parse import urlsplit

from tidegauge.errors import TidegaugeError

DATABASE_HEADER = "Tidegauge-Database"
"""Names the database of a controller: in its answers to `/readyz`, and in all while it stands by."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z", re.ASCII)


class InvalidTokenError(TidegaugeError):
    """A text that cannot be a token; the error does not show it, since it may nearly be one."""

    def __init__(self) -> None:
        super().__init__(
            "the token is empty or has a character that no token has, such as a space or a line "
            "break; strip what you read from a file"
        )


def check_url(url: str, *, form: str = "http://HOST:PORT") -> str:
    """Return the address, or raise ``ValueError`` naming the form that is expected."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        good = good and not (parts.query or parts.fragment)
    except ValueError:
        good = False
    if not good:
        msg = f"{url!r} is not a service URL; write {form}"
        raise ValueError(msg)
    if parts.username is not None:
        msg = f"remove the user information before @{parts.hostname}: the service takes tokens"
        raise ValueError(msg)
    return url


def check_urls(text: str) -> str:
    """Return the addresses of a service's controllers, separated by commas, in one form.

    Raises ``ValueError`` naming the one that is none.
    """
    form = "http://HOST:PORT, several separated by commas"
    return ",".join(check_url(url.strip(), form=form).rstrip("/") for url in text.split(","))


def check_token(token: str) -> str:
    """Return the token, or raise `InvalidTokenError`.

    Sent as it is, it could end the header, or appear in the error of the library that refuses
    to send it.
    """
    if not _TOKEN.match(token):
        raise InvalidTokenError
    return token
