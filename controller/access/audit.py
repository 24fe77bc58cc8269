"""What operators did, and what somebody wanted to do who is none, in the log.

Where callers have names it is there at any level of the log, since ``--log-level`` is chosen by
how much of the service's own doings one wants to read. Of a token only the name is logged.
"""

import logging
from collections.abc import Mapping

from controller.access.callers import ANYBODY, Caller
from tidegauge.errors import ForbiddenError

_nameless = logging.getLogger(__name__)
_named = logging.getLogger(f"{__name__}.named")
_named.setLevel(logging.INFO)


def log_done(caller: Caller, status: int, fields: Mapping[str, str]) -> None:
    """Log a call of an operator that was answered."""
    log = _nameless if caller is ANYBODY else _named
    log.info("operator call", extra={"caller": caller.name, "status": status, **fields})


def log_refused(caller: Caller, fields: Mapping[str, str]) -> None:
    """Log a call that only operators may make, and its caller may not."""
    known = {"caller": caller.name, "status": ForbiddenError.status}
    _named.warning("operator call refused", extra={**known, **fields})
