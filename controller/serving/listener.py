"""Where the service listens, and whether strangers could reach it there."""

import logging
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address

from controller.configuration import ServeSettings
from tidegauge.errors import TidegaugeError

BACKLOG = 2_048
_ALL = "0.0.0.0"  # noqa: S104 (whether that is safe is checked below)
_log = logging.getLogger(__name__)


class AddressUnusableError(TidegaugeError):
    """Nobody can listen there."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"cannot listen on {where}: {reason}")


class ExposedError(TidegaugeError):
    """The service would let anybody on the network do everything."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"listening on {host or 'all addresses'} without tokens would let anybody on the network read, write "
            "and delete; give --tokens FILE (`tidegauge token new` fills it), or --insecure if "
            "something else keeps strangers out"
        )


def address_of(host: str) -> IPv4Address | IPv6Address:
    """Find the address that a host means, of the older kind if it has both."""
    try:
        found = socket.getaddrinfo(host or _ALL, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressUnusableError(host, error.strerror or str(error)) from error
    return min((ip_address(one[4][0]) for one in found), key=lambda one: one.version)


def check_exposure(settings: ServeSettings) -> None:
    """Refuse to listen beyond this machine without tokens, unless that is wanted."""
    if address_of(settings.host).is_loopback:
        return
    if settings.tokens is None:
        if not settings.insecure:
            raise ExposedError(settings.host)
        _log.warning("anybody who reaches %s may read, write and delete", settings.host)
    elif settings.tls_certificate is None:
        _log.warning("tokens travel in the clear unless a proxy in front of this speaks TLS")


def is_for_this_machine(settings: ServeSettings) -> bool:
    """Whether callers are let in because they are on this machine, and for nothing else."""
    is_open = settings.tokens is None and not settings.insecure
    return is_open and address_of(settings.host).is_loopback


def listen(host: str, port: int) -> socket.socket:
    """Listen there; raises `AddressUnusableError`."""
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
