"""Readers: the events, marks and time windows of a stream, alone or in groups.

Every error is a `TidegaugeError`. What the service refused is a `ProblemError` with a stable
``code``, such as `ReaderFencedError`; the rest is about the client and reaching the service.
"""

from reader_client._exclusive import AsyncExclusiveReader, ExclusiveReader
from reader_client._group import AsyncReaderGroup, ReaderGroup
from reader_client._reader import AsyncReader, Event, Reader
from reader_client._stream import AsyncStreamClient, Events, StreamClient
from tidegauge.errors import (
    ForbiddenError,
    GroupExistsError,
    ImmutableSettingError,
    InvalidPositionError,
    InvalidTransitionError,
    ProblemError,
    ReaderFencedError,
    StreamExistsError,
    StreamReplacedError,
    TidegaugeError,
    UnauthenticatedError,
    UnknownGroupError,
    UnknownReaderError,
    UnknownStreamError,
    UnknownWriterError,
)
from tidegauge.stream_calls import WatermarkTimeoutError
from tidegauge.sync import ClientClosedError, ForkedClientError
from tidegauge.tokens import InvalidTokenError
from tidegauge.transport import ServiceUnreachableError, UnexpectedAnswerError
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
    "ImmutableSettingError",
    "InvalidPositionError",
    "InvalidTokenError",
    "InvalidTransitionError",
    "ProblemError",
    "Reader",
    "ReaderFencedError",
    "ReaderGroup",
    "ServiceUnreachableError",
    "StreamClient",
    "StreamExistsError",
    "StreamReplacedError",
    "TidegaugeError",
    "TimeWindow",
    "UnauthenticatedError",
    "UnexpectedAnswerError",
    "UnknownGroupError",
    "UnknownReaderError",
    "UnknownStreamError",
    "UnknownWriterError",
    "WatermarkTimeoutError",
]
