"""Certificates in PEM files: the one that the service shows, and those that it trusts."""

import logging
import ssl
from pathlib import Path
from typing import Any

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


class Authorities:
    """The authorities that may sign the certificates of other services.

    Those in the file are, if it changed, from the next connection on; the ``context`` stays the
    same. Raises `CertificateError` if the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        kept = "the authorities read before stay in force"
        self.check = Rereading(path, read=self._load, take=self._take, kept=kept).check
        self.context = _RenewedContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.newest = self._load()

    def _take(self, newest: ssl.SSLContext) -> None:
        self.context.newest = newest
        _log.info("authorities read again from %s", self._path)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(self._path)
        except (OSError, ValueError) as error:
            raise CertificateError(self._path, None, str(error)) from error
        return context


class _RenewedContext(ssl.SSLContext):
    """What a client keeps, whose connections are made by the newest context.

    An authority cannot be removed from a context. This one trusts none itself.
    """

    newest: ssl.SSLContext

    def wrap_bio(self, *given: Any, **named: Any) -> ssl.SSLObject:  # noqa: ANN401 (ssl's)
        """Begin a connection."""
        return self.newest.wrap_bio(*given, **named)


def _no_password() -> str:
    """Keep a process without a terminal from asking for one."""
    msg = "the key has a password; give one without"
    raise ValueError(msg)
