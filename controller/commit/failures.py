"""Transactions that fail for one reason are told once, not once each."""

import logging

from controller.database import LeaseLostError
from controller.logs.deduplication import LogOnce
from tidegauge.errors import OutcomeUnknownError, UnavailableError

_log = logging.getLogger(__name__)


class Outage:
    """Tells the log of transactions that fail: a defect each time, with its traceback.

    What the database refuses, or is away for, is one line for each reason until a transaction
    succeeds: the database has told all about it, and callers repeat.
    """

    def __init__(self) -> None:
        self._told = LogOnce(_log, logging.ERROR)

    def tell(self, error: Exception, *, changes: int) -> None:
        """Say that a transaction of so many changes failed."""
        if isinstance(error, LeaseLostError):
            _log.info(
                "a transaction came too late: %s", error.reason, extra={"changes": changes}
            )
        elif isinstance(error, OutcomeUnknownError | UnavailableError):
            self._told.tell(f"transactions fail: {error.reason}")
        else:
            _log.error("a transaction failed", exc_info=error, extra={"changes": changes})

    def tell_stale(self, error: UnavailableError) -> None:
        """Say that what a failed transaction touched cannot be read back yet."""
        self._told.tell(f"cannot read back after a failed transaction: {error.reason}")

    def end(self) -> None:
        """Take note that a transaction succeeded."""
        self._told.end()
