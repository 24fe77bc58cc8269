"""Writers: events with time noted, to the embedded log or to a log of one's own."""

from tidegauge.errors import (
    ForbiddenError,
    InvalidPositionError,
    InvalidTimeError,
    LogIsExternalError,
    ReportRefusedError,
    StreamReplacedError,
    StreamSealedError,
    TimeInFutureError,
    UnauthenticatedError,
    UnknownStreamError,
    WriterFencedError,
)
from tidegauge.sync import ForkedClientError
from tidegauge.tokens import InvalidTokenError
from tidegauge.transport import ServiceUnreachableError, UnexpectedAnswerError
from writer_client._async_writer import AsyncWriter
from writer_client._errors import EventsNotStoredError, WriterClosedError, WriterError
from writer_client._reporter import AsyncTimeReporter, TimeReporter
from writer_client._writer import Writer

__all__ = [
    "AsyncTimeReporter",
    "AsyncWriter",
    "EventsNotStoredError",
    "ForbiddenError",
    "ForkedClientError",
    "InvalidPositionError",
    "InvalidTimeError",
    "InvalidTokenError",
    "LogIsExternalError",
    "ReportRefusedError",
    "ServiceUnreachableError",
    "StreamReplacedError",
    "StreamSealedError",
    "TimeInFutureError",
    "TimeReporter",
    "UnauthenticatedError",
    "UnexpectedAnswerError",
    "UnknownStreamError",
    "Writer",
    "WriterClosedError",
    "WriterError",
    "WriterFencedError",
]
