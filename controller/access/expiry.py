"""When a certificate ends, without a package that reads certificates."""

import ssl
from pathlib import Path

_NO_CHECK_TIME = 0x200000
"""OpenSSL's ``X509_V_FLAG_NO_CHECK_TIME``: the end of a certificate that expired is told too."""


def end_of(certificate: Path, shown_by: ssl.SSLContext) -> float:
    """Tell when the certificate of a server ends, seconds since 1970.

    The standard library tells it of a certificate that another side showed, and that was found
    to be good. So the server shows it here, to a client in memory that trusts this one.

    Raises
    ------
    ssl.SSLError
        If even such a client refuses it.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    client.load_verify_locations(certificate)
    shown = _shown(client, shown_by)
    return float(ssl.cert_time_to_seconds(str(shown["notAfter"])))


def _shown(client: ssl.SSLContext, server: ssl.SSLContext) -> dict[str, object]:
    asked, answered = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(answered, asked)
    answering = server.wrap_bio(asked, answered, server_side=True)
    for side in (asking, answering):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    asking.do_handshake()
    return dict(asking.getpeercert() or {})
