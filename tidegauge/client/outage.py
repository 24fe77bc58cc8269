"""What a client says of a time without answers: once as it begins, and once as it ends."""

import logging
import time
from collections.abc import Callable
from datetime import timedelta

from tidegauge.errors import TidegaugeError

RETRY_FOR = timedelta(seconds=60)
"""How long a client tries again by default."""

TAKE_OVER = timedelta(seconds=30)
"""The least patience of a client once something has answered: another controller may be taking over.

That takes two leases of 3 s, a second, and up to ten seconds of reading. A holder that is paused keeps a
call waiting for 20 s before the next address is asked.
"""

Log = Callable[[str], object]
"""Takes a line about the service."""

log_warning: Log = logging.getLogger(__name__).warning
"""Both lines are warnings: where one sees that it begins one wants to see that it ended."""


class Outage:
    """Whether a service answers, however many requests wait for it; ``log`` takes the lines."""

    def __init__(self, url: str, *, log: Log = log_warning) -> None:
        self._url = url
        self._log = log
        self._began_s: float | None = None

    def begin(self, reason: str, *, retry_for: timedelta | None) -> None:
        """Record that a request has to be repeated, for so long; None for as long as it takes."""
        if self._began_s is None:
            self._began_s = time.monotonic()
            patience = "until it answers"
            if retry_for is not None:
                patience = f"for up to {retry_for.total_seconds():g} s"
            self._log(f"retrying {self._url} {patience}: {reason}")

    def end(self) -> None:
        """Record that the service has answered."""
        if self._began_s is not None:
            passed_s = time.monotonic() - self._began_s
            self._began_s = None
            self._log(f"{self._url} answers again, after {passed_s:.1f} s")


class ServiceUnreachableError(TidegaugeError):
    """The service did not answer, however often it was asked.

    Attributes
    ----------
    url
        Where it should be.
    reason
        What happened at the last try.
    """

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"no answer from {url}: {reason}; is the service running there?")


class UnexpectedAnswerError(TidegaugeError):
    """Something answered, but not this version of the service.

    Attributes
    ----------
    url
        Where the service should be.
    status
        HTTP status.
    body
        The beginning of what it said.
    """

    def __init__(self, url: str, status: int, body: str) -> None:
        self.url = url
        self.status = status
        self.body = body
        said = f", {body!r}" if body else ""
        super().__init__(
            f"{url} does not answer like Tidegauge (status {status}{said}): is it the URL of a "
            "service of this version?"
        )


class TwoServicesError(TidegaugeError):
    """Two of the URLs lead to controllers of different databases."""


class AuthoritiesError(TidegaugeError):
    """The file that ``SSL_CERT_FILE`` names cannot be read, or has no certificates."""

    def __init__(self, file: str | None, reason: str) -> None:
        super().__init__(
            f"SSL_CERT_FILE names {file}, which cannot be used ({reason}): name a file of "
            "certificates in PEM form, or unset it"
        )
