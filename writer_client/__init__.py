"""Writers: events with time noted, to the embedded log or to a log of one's own."""

from tidegauge.errors import ReportRefusedError, WriterFencedError
from tidegauge.sync import ForkedClientError
from tidegauge.transport import ServiceUnreachableError, UnexpectedAnswerError
from writer_client._errors import EventsNotStoredError, WriterClosedError, WriterError
from writer_client._reporter import AsyncTimeReporter, TimeReporter
from writer_client._writer import AsyncWriter, Writer

__all__ = [
    "AsyncTimeReporter",
    "AsyncWriter",
    "EventsNotStoredError",
    "ForkedClientError",
    "ReportRefusedError",
    "ServiceUnreachableError",
    "TimeReporter",
    "UnexpectedAnswerError",
    "Writer",
    "WriterClosedError",
    "WriterError",
    "WriterFencedError",
]
