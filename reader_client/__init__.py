"""Readers: the events, marks and time windows of a stream, alone or in groups."""

from reader_client._exclusive import AsyncExclusiveReader, ExclusiveReader
from reader_client._group import AsyncReaderGroup, ReaderGroup
from reader_client._reader import AsyncReader, Event, Reader
from reader_client._stream import AsyncStreamClient, Events, StreamClient
from tidegauge.errors import InvalidTransitionError, ReaderFencedError
from tidegauge.sync import ForkedClientError
from tidegauge.transport import ServiceUnreachableError, UnexpectedAnswerError
from tidegauge.windows import TimeWindow

__all__ = [
    "AsyncExclusiveReader",
    "AsyncReader",
    "AsyncReaderGroup",
    "AsyncStreamClient",
    "Event",
    "Events",
    "ExclusiveReader",
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
