"""Readers: the events, marks and time windows of a stream."""

from reader_client._stream import AsyncStreamClient, Events, StreamClient
from tidegauge.sync import ForkedClientError
from tidegauge.transport import ServiceUnreachableError, UnexpectedAnswerError

__all__ = [
    "AsyncStreamClient",
    "Events",
    "ForkedClientError",
    "ServiceUnreachableError",
    "StreamClient",
    "UnexpectedAnswerError",
]
