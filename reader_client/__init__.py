"""Readers: the events, marks and time windows of a stream, alone or in groups."""

from reader_client._exclusive import AsyncExclusiveReader, ExclusiveReader
from reader_client._group import AsyncReaderGroup, ReaderGroup
from reader_client._reader import AsyncReader, Event, Reader
from reader_client._stream import AsyncStreamClient, Events, StreamClient
from tidegauge.errors import (
    ForbiddenError,
    GroupExistsError,
    InvalidPositionError,
    InvalidTransitionError,
    ReaderFencedError,
    StreamReplacedError,
    UnauthenticatedError,
    UnknownGroupError,
    UnknownReaderError,
    UnknownStreamError,
    UnknownWriterError,
)
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
    "InvalidPositionError",
    "InvalidTokenError",
    "InvalidTransitionError",
    "Reader",
    "ReaderFencedError",
    "ReaderGroup",
    "ServiceUnreachableError",
    "StreamClient",
    "StreamReplacedError",
    "TimeWindow",
    "UnauthenticatedError",
    "UnexpectedAnswerError",
    "UnknownGroupError",
    "UnknownReaderError",
    "UnknownStreamError",
    "UnknownWriterError",
]
