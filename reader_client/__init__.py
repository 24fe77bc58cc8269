"""Readers: the events, marks and time windows of a stream, alone or in groups.

Every error is a `TidegaugeError`. What the service refused is a `ProblemError` with a stable
``code``, such as `ReaderFencedError`; the rest is about the client and reaching the service.
"""

from reader_client._exclusive import AsyncExclusiveReader, ExclusiveReader
from reader_client._group import AsyncReaderGroup, ReaderGroup
from reader_client._reader import AsyncReader, Event, Reader
from reader_client._stream import AsyncStreamClient, Events, StreamClient
from tidegauge.client.sync import ClientClosedError, ForkedClientError
from tidegauge.client.tokens import InvalidTokenError
from tidegauge.client.transport import ServiceUnreachableError, UnexpectedAnswerError
from tidegauge.errors import (
    ForbiddenError,
    GroupExistsError,
    InvalidPositionError,
    InvalidTransitionError,
    ProblemError,
    ReaderFencedError,
    StreamReplacedError,
    TidegaugeError,
    UnauthenticatedError,
    UnknownGroupError,
    UnknownReaderError,
    UnknownStreamError,
    UnknownWriterError,
)
from tidegauge.windows import TimeWindow

__all__ = [
    "AsyncExclusiveReader",
    "AsyncReader",
    "AsyncReaderGroup",
    "AsyncStreamClient",
    "ClientClosedError",
    "Event",
    "Events",
    "ExclusiveReader",
    "ForbiddenError",
    "ForkedClientError",
    "GroupExistsError",
    "InvalidPositionError",
    "InvalidTokenError",
    "InvalidTransitionError",
    "ProblemError",
    "Reader",
    "ReaderFencedError",
    "ReaderGroup",
    "ServiceUnreachableError",
    "StreamClient",
    "StreamReplacedError",
    "TidegaugeError",
    "TimeWindow",
    "UnauthenticatedError",
    "UnexpectedAnswerError",
    "UnknownGroupError",
    "UnknownReaderError",
    "UnknownStreamError",
    "UnknownWriterError",
]
