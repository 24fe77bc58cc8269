"""Certificates in PEM files: the one that the service shows, and those that it trusts."""

import logging
import ssl
from pathlib import Path

from controller.access.changes import Rereading
from tidegauge.errors import TidegaugeError

_log = logging.getLogger(__name__)


class CertificateError(TidegaugeError):
    """A certificate or its key cannot be used."""

    def __init__(self, certificate: Path, key: Path | None, reason: str) -> None:
        self.certificate = certificate
        self.key = key
        self.reason = reason
        where = f"certificate {certificate}" + (f" with key {key}" if key else "")
        super().__init__(f"{where}: {reason}; PEM files are expected")


class Certificate:
    """The certificate of the service: a renewed one from the next connection on.

    Without a ``key`` it is in the file of the certificate. The ``context`` stays the same. Raises
    `CertificateError` if the files cannot be used.
    """

    def __init__(self, certificate: Path, key: Path | None) -> None:
        self._certificate = certificate
        self._key = key
        # The race: a renewal replaces one file after the other. Until they fit, the former
        # certificate is shown.
        self.check = Rereading(
            certificate,
            key or certificate,
            read=self._load,
            take=lambda _: _log.info("certificate read again from %s", certificate),
            kept="the certificate read before stays in force",
        ).check
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load()

    def _load(self) -> None:
        # A context that could not load a key has lost the former one: another one tries first.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
            try:
                context.load_cert_chain(self._certificate, self._key, _no_password)
            except (OSError, ValueError) as error:
                raise CertificateError(self._certificate, self._key, str(error)) from error


def _no_password() -> str:
    """Keep a process without a terminal from asking for one."""
    msg = "the key has a password; give one without"
    raise ValueError(msg)
