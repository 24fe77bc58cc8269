"""Whether the files of a certificate can be used."""

import ssl
from pathlib import Path

from controller.configuration import ServeSettings
from tidegauge.errors import TidegaugeError


class CertificateError(TidegaugeError):
    """A certificate or its key cannot be used.

    Attributes
    ----------
    certificate, key
        The files.
    reason
        What is wrong.
    """

    def __init__(self, certificate: Path, key: Path | None, reason: str) -> None:
        self.certificate = certificate
        self.key = key
        self.reason = reason
        where = f"certificate {certificate}" + (f" with key {key}" if key else "")
        super().__init__(f"{where}: {reason}; both are PEM files")


def check_certificate(settings: ServeSettings) -> None:
    """Raise `CertificateError` if the service could not speak TLS as it should."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, _no_password)
    except (OSError, ValueError) as error:
        raise CertificateError(certificate, key, str(error)) from error


def _no_password() -> str:
    """Keep a process without a terminal from asking for one."""
    msg = "the key has a password; give one without"
    raise ValueError(msg)
