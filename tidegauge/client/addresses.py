"""Addresses of services."""

from urllib.parse import urlsplit


def check_url(url: str) -> str:
    """Return the address, or raise ``ValueError`` naming the form that is expected."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good:
        msg = f"{url!r} is no address of a service; write http://HOST:PORT"
        raise ValueError(msg)
    if parts.username is not None:
        msg = f"leave out what stands before @{parts.hostname}: the service takes tokens"
        raise ValueError(msg)
    return url
