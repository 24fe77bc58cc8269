"""Whether strangers could reach a service that asks nobody who they are."""

import logging

from controller.configuration import ServeSettings
from controller.serving.listener import address_of
from tidegauge.errors import TidegaugeError

_log = logging.getLogger(__name__)


class ExposedError(TidegaugeError):
    """The service would let anybody on the network do everything.

    Attributes
    ----------
    host
        The address that it was to listen on.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"listening on {host or 'all addresses'} without tokens would let anybody on the network read, write "
            "and delete; give --tokens FILE (`tidegauge token new` fills it), or --insecure if "
            "something else keeps strangers out"
        )


def check_exposure(settings: ServeSettings) -> None:
    """Refuse to listen beyond this machine without tokens, unless that is wanted.

    Raises
    ------
    ExposedError
        If that is neither safe nor wanted.
    AddressUnusableError
        If the host has no address.
    """
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
    return (
        settings.tokens is None
        and not settings.insecure
        and address_of(settings.host).is_loopback
    )
