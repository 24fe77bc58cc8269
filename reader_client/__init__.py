"""Readers: the events, marks and time windows of a stream, alone or in groups."""

from reader_client._group import AsyncReader, AsyncReaderGroup, Event, Reader, ReaderGroup
from reader_client._stream import AsyncStreamClient, Events, StreamClient
from tidegauge.errors import InvalidTransitionError, ReaderFencedError
from tidegauge.sync import ForkedClientError
from tidegauge.transport import ServiceUnreachableError, UnexpectedAnswerError
from tidegauge.windows import TimeWindow

__all__ = [
    "AsyncReader",
    "AsyncReaderGroup",
    "AsyncStreamClient",
    "Event",
    "Events",
    "ForkedClientError",
    "InvalidTransitionError",
    "Reader",
    "ReaderFencedError",
    "ReaderGroup",
    "ServiceUnreachableError",
    "StreamClient",
    "TimeWindow",
    "UnexpectedAnswerError",
]
