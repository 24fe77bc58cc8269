"""Whom a service that asks nobody for a token answers: who calls it by a name of this machine.

A browser lets a page talk to the site that it came from. If its author has that name mean
127.0.0.1 (DNS rebinding), the page talks to what listens there; but its browser goes on to send the
name, and by that it is told apart.
"""

from functools import lru_cache
from ipaddress import ip_address

from controller.http.messages.media import Headers
from tidegauge.errors import MisdirectedRequestError


def check_host(headers: Headers) -> None:
    """Refuse who calls by a name that need not be this machine's; old tools send none."""
    for name, value in headers:
        if name == b"host" and not _is_loopback(value):
            raise MisdirectedRequestError(value.decode("latin-1"))


@lru_cache(maxsize=64)
def _is_loopback(host: bytes) -> bool:
    """Whether a name, with or without a port, is one of this machine whoever resolves it."""
    name = host.decode("latin-1").lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
