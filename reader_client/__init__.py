"""Readers: the events, marks and time windows of a stream, alone or in groups.

Every error is a `TidegaugeError`. What the service refused is a `ProblemError` with a stable
``code``, such as `ReaderFencedError`; the rest is about the client and reaching the service.

Reading events needs the extra ``reader``; everything else needs ``reporter`` only.
"""

import typing

from tidegauge import extras as _extras
from tidegauge.client.addresses import InvalidTokenError
from tidegauge.client.outage import ServiceUnreachableError, UnexpectedAnswerError
from tidegauge.windows import TimeWindow

# Importable from here, too, but at home in tidegauge.errors.
_ERRORS = [
    "EventsNeededError",
    "ForbiddenError",
    "GroupExistsError",
    "ImmutableSettingError",
    "InvalidPositionError",
    "InvalidTransitionError",
    "LogIsExternalError",
    "ProblemError",
    "ReaderFencedError",
    "SegmentLimitError",
    "StreamExistsError",
    "StreamReplacedError",
    "TidegaugeError",
    "TopologyChangedError",
    "TruncatedError",
    "UnauthenticatedError",
    "UnknownGroupError",
    "UnknownReaderError",
    "UnknownStreamError",
    "UnknownStreamSegmentError",
    "UnknownWriterError",
]

if typing.TYPE_CHECKING:
    from reader_client._events import Events
    from reader_client._exclusive import AsyncExclusiveReader, ExclusiveReader
    from reader_client._group import AsyncReaderGroup, ReaderGroup
    from reader_client._intervals import StreamWorkList
    from reader_client._reader import AsyncReader, Event, Reader
    from reader_client._stream import AsyncStreamClient, StreamClient
    from tidegauge.client.stream_calls import WatermarkTimeoutError
    from tidegauge.client.sync import ClientClosedError, ForkedClientError
    from tidegauge.intervals import GoneError, TooManyIntervalsError
else:
    _NAMES = {
        None: {
            **dict.fromkeys(_ERRORS, "tidegauge.errors"),
            "GoneError": "tidegauge.intervals",
            "StreamWorkList": "reader_client._intervals",
            "TooManyIntervalsError": "tidegauge.intervals",
        },
        "reporter": {
            "AsyncExclusiveReader": "reader_client._exclusive",
            "AsyncReaderGroup": "reader_client._group",
            "AsyncStreamClient": "reader_client._stream",
            "ClientClosedError": "tidegauge.client.sync",
            "ExclusiveReader": "reader_client._exclusive",
            "ForkedClientError": "tidegauge.client.sync",
            "ReaderGroup": "reader_client._group",
            "StreamClient": "reader_client._stream",
            "WatermarkTimeoutError": "tidegauge.client.stream_calls",
        },
        "reader": {
            "AsyncReader": "reader_client._reader",
            "Event": "reader_client._reader",
            "Events": "reader_client._events",
            "Reader": "reader_client._reader",
        },
    }
    __getattr__, __dir__ = _extras.on_demand(__name__, _NAMES)

__all__ = [
    "AsyncExclusiveReader",
    "AsyncReader",
    "AsyncReaderGroup",
    "AsyncStreamClient",
    "ClientClosedError",
    "Event",
    "Events",
    "ExclusiveReader",
    "ForkedClientError",
    "GoneError",
    "InvalidTokenError",
    "Reader",
    "ReaderGroup",
    "ServiceUnreachableError",
    "StreamClient",
    "StreamWorkList",
    "TimeWindow",
    "TooManyIntervalsError",
    "UnexpectedAnswerError",
    "WatermarkTimeoutError",
]
