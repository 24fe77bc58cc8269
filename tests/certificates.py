"""Certificates for tests, as files."""

from datetime import datetime
from pathlib import Path

import trustme


class Files:
    """A certificate of an authority of our own for 127.0.0.1.

    Parameters
    ----------
    directory
        Where the files go.
    end
        When the certificate expires; None: not in our time.
    """

    def __init__(self, directory: Path, *, end: datetime | None = None) -> None:
        self.directory = directory
        self.authority = directory / "authority.pem"
        self.certificate = directory / "certificate.pem"
        self.key = directory / "key.pem"
        self.both = directory / "both.pem"
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1", not_after=end)
        authority.cert_pem.write_to_path(str(self.authority))
        issued.cert_chain_pems[0].write_to_path(str(self.certificate))
        issued.private_key_pem.write_to_path(str(self.key))
        issued.private_key_and_cert_chain_pem.write_to_path(str(self.both))
