"""Every error of Tidegauge: one class a code, the same on the server and in the clients.

The service answers each as an RFC 9457 problem document with a stable ``code``; the clients
read the document back into the same class, so that a caller recovers from typed data
(`WriterFencedError.incarnation`) and never parses a message.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tidegauge.errors.access import (
    ForbiddenError,
    UnauthenticatedError,
)
from tidegauge.errors.base import (
    ProblemError,
    TidegaugeError,
)
from tidegauge.errors.groups import (
    GroupExistsError,
    InvalidTransitionError,
    ReaderFencedError,
    UnknownGroupError,
    UnknownReaderError,
)
from tidegauge.errors.limits import (
    NameTooLongError,
    TooManyGroupsError,
    TooManySegmentsError,
    TooManyStreamsError,
    TooManyWaitingError,
    TooManyWritersError,
)
from tidegauge.errors.requests import (
    BodyTooLargeError,
    HeadTimeoutError,
    HeadTooLargeError,
    InternalError,
    InvalidRequestError,
    MalformedRequestError,
    MethodNotAllowedError,
    MisdirectedRequestError,
    NotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
    PreconditionRequiredError,
    UnavailableError,
    UnhealthyError,
    UnsupportedContentEncodingError,
    UnsupportedMediaTypeError,
)
from tidegauge.errors.streams import (
    ImmutableSettingError,
    LogIsExternalError,
    NotCompleteYetError,
    StreamExistsError,
    StreamReplacedError,
    UnknownStreamError,
    UnknownStreamSegmentError,
)
from tidegauge.errors.writing import (
    IncarnationRequiredError,
    InvalidPositionError,
    InvalidTimeError,
    ReportRefusedError,
    SegmentSealedError,
    SequenceGapError,
    StreamSealedError,
    TimeInFutureError,
    UnknownWriterError,
    WriterError,
    WriterFencedError,
)

__all__ = [
    "PROBLEMS",
    "BodyTooLargeError",
    "ForbiddenError",
    "GroupExistsError",
    "HeadTimeoutError",
    "HeadTooLargeError",
    "ImmutableSettingError",
    "IncarnationRequiredError",
    "InternalError",
    "InvalidPositionError",
    "InvalidRequestError",
    "InvalidTimeError",
    "InvalidTransitionError",
    "LogIsExternalError",
    "MalformedRequestError",
    "MethodNotAllowedError",
    "MisdirectedRequestError",
    "NameTooLongError",
    "NotCompleteYetError",
    "NotFoundError",
    "OutcomeUnknownError",
    "PreconditionFailedError",
    "PreconditionRequiredError",
    "ProblemError",
    "ReaderFencedError",
    "ReportRefusedError",
    "SegmentSealedError",
    "SequenceGapError",
    "StreamExistsError",
    "StreamReplacedError",
    "StreamSealedError",
    "TidegaugeError",
    "TimeInFutureError",
    "TooManyGroupsError",
    "TooManySegmentsError",
    "TooManyStreamsError",
    "TooManyWaitingError",
    "TooManyWritersError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnhealthyError",
    "UnknownGroupError",
    "UnknownReaderError",
    "UnknownStreamError",
    "UnknownStreamSegmentError",
    "UnknownWriterError",
    "UnsupportedContentEncodingError",
    "UnsupportedMediaTypeError",
    "WriterError",
    "WriterFencedError",
    "problem_of",
]


def _all_problems(base: type[ProblemError]) -> dict[str, type[ProblemError]]:
    found = {}
    for cls in base.__subclasses__():
        if "code" in vars(cls):
            found[cls.code] = cls
        found |= _all_problems(cls)
    return found


PROBLEMS: Mapping[str, type[ProblemError]] = _all_problems(ProblemError)
"""Every problem by its code."""


def problem_of(document: Mapping[str, Any]) -> ProblemError:
    """Read a problem document back into the error it came from.

    Raises
    ------
    KeyError
        If the code is unknown or a field is missing: not a document of this version.
    """
    cls = PROBLEMS[document["code"]]
    return cls(*(document[field.name] for field in fields(cls)))
