"""Where the service listens."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

from tidegauge.errors import TidegaugeError

BACKLOG = 2_048
_ALL = "0.0.0.0"  # noqa: S104 (whether that is safe is asked elsewhere)


class AddressUnusableError(TidegaugeError):
    """Nobody can listen there.

    Attributes
    ----------
    where
        What was asked for.
    reason
        Why not.
    """

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"cannot listen on {where}: {reason}")


def address_of(host: str) -> IPv4Address | IPv6Address:
    """Find the address that a host means, of the older kind if it has both.

    Raises
    ------
    AddressUnusableError
        If it has none.
    """
    try:
        found = socket.getaddrinfo(host or _ALL, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressUnusableError(host, error.strerror or str(error)) from error
    return min((ip_address(one[4][0]) for one in found), key=lambda one: one.version)


def listen(host: str, port: int) -> socket.socket:
    """Listen there.

    Raises
    ------
    AddressUnusableError
        If that is not possible.
    """
    address = address_of(host)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        listener = socket.create_server(
            (str(address), port), family=family, backlog=BACKLOG, reuse_port=False
        )
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while ")[0]
        raise AddressUnusableError(show_address(host, port), reason) from error
    # Connections inherit it; without it an answer in two writes waits 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def show_address(host: str, port: int) -> str:
    """Write an address as URLs do."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reachable(host: str) -> str:
    """Name what others can connect to, if a host is all addresses of this machine."""
    return socket.gethostname() if ip_address(host).is_unspecified else host
