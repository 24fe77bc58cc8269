"""Writers: events with time noted, to the embedded log or to a log of one's own.

Every error is a `TidegaugeError`. What is wrong with the writer itself is a `WriterError`: fenced,
refused, closed, or stopped with something not stored. What the service refused, for whatever
reason, is a `ProblemError` with a stable ``code``. The rest is about reaching the service.

Noting time needs the extra ``reporter`` only; writing events needs ``writer``.
"""

import typing

from tidegauge import extras as _extras
from tidegauge.client.addresses import InvalidTokenError
from tidegauge.client.outage import ServiceUnreachableError, UnexpectedAnswerError

# Importable from here, too, but at home in tidegauge.errors.
_ERRORS = [
    "ForbiddenError",
    "InvalidPositionError",
    "InvalidTimeError",
    "LogIsExternalError",
    "ProblemError",
    "ReportRefusedError",
    "StreamReplacedError",
    "StreamSealedError",
    "TidegaugeError",
    "TimeInFutureError",
    "TransactionFinishedError",
    "UnauthenticatedError",
    "UnknownStreamError",
    "WriterError",
    "WriterFencedError",
]

if typing.TYPE_CHECKING:
    from tidegauge.client.sync import ClientClosedError, ForkedClientError
    from writer_client._async_writer import AsyncWriter
    from writer_client._errors import (
        EventsNotStoredError,
        TransactionOpenError,
        WriterClosedError,
    )
    from writer_client._reporter import AsyncTimeReporter, TimeReporter
    from writer_client._transaction import AsyncTransaction, Transaction
    from writer_client._writer import Writer
else:
    _NAMES = {
        None: dict.fromkeys(_ERRORS, "tidegauge.errors"),
        "reporter": {
            "AsyncTimeReporter": "writer_client._reporter",
            "ClientClosedError": "tidegauge.client.sync",
            "EventsNotStoredError": "writer_client._errors",
            "ForkedClientError": "tidegauge.client.sync",
            "TimeReporter": "writer_client._reporter",
            "TransactionOpenError": "writer_client._errors",
            "WriterClosedError": "writer_client._errors",
        },
        "writer": {
            "AsyncTransaction": "writer_client._transaction",
            "AsyncWriter": "writer_client._async_writer",
            "Transaction": "writer_client._transaction",
            "Writer": "writer_client._writer",
        },
    }
    __getattr__, __dir__ = _extras.on_demand(__name__, _NAMES)

__all__ = [
    "AsyncTimeReporter",
    "AsyncTransaction",
    "AsyncWriter",
    "ClientClosedError",
    "EventsNotStoredError",
    "ForkedClientError",
    "InvalidTokenError",
    "ServiceUnreachableError",
    "TimeReporter",
    "Transaction",
    "TransactionOpenError",
    "UnexpectedAnswerError",
    "Writer",
    "WriterClosedError",
]
