"""Every error of Tidegauge: one class a code, the same on the server and in the clients.

The service answers each as an RFC 9457 problem document with a stable ``code``; the clients
read the document back into the same class, so that a caller recovers from typed data
(`WriterFencedError.incarnation`) and never parses a message.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from tidegauge.event_time import describe_event_time
from tidegauge.topology import Position


class TidegaugeError(Exception):
    """The base of everything that Tidegauge raises on purpose."""


@dataclass(eq=False)
class ProblemError(TidegaugeError):
    """An answer other than success; its fields are the values in question.

    Attributes
    ----------
    code
        Stable name, one for each class.
    status
        The HTTP status; a code has exactly one.
    """

    code: ClassVar[str]
    status: ClassVar[int]

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    @property
    def detail(self) -> str:
        """What happened and what to do, with the values, for a person."""
        raise NotImplementedError

    def document(self) -> dict[str, Any]:
        """Make the problem document."""
        return {
            "type": f"urn:tidegauge:{self.code}",
            "title": self.code.replace("_", " "),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **{field.name: getattr(self, field.name) for field in fields(self)},
        }


_P = TypeVar("_P", bound=ProblemError)


@dataclass_transform(eq_default=False)
def _of(code: str, status: int) -> Callable[[type[_P]], type[_P]]:
    def mark(cls: type[_P]) -> type[_P]:
        cls.code, cls.status = code, status
        return dataclass(eq=False)(cls)

    return mark


class ReportRefusedError(ProblemError):
    """A report, registration or leave that changes nothing (section 2 of the rules)."""


@_of("incarnation_required", 409)
class IncarnationRequiredError(ReportRefusedError):
    """The writer registered before, so that every call must name its incarnation."""

    writer: str
    incarnation: int

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} is registered; send its incarnation "
            f"(the newest is {self.incarnation})"
        )


@_of("writer_fenced", 409)
class WriterFencedError(ReportRefusedError):
    """A newer process registered under the writer's name."""

    writer: str
    incarnation: int

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} was registered again as incarnation {self.incarnation}; "
            "this process must stop, or register to take over"
        )


@_of("invalid_time", 409)
class InvalidTimeError(ReportRefusedError):
    """A time below the writer's stored one, or the end of time."""

    writer: str
    time: int
    stored_time: int | None

    @property
    def detail(self) -> str:
        given = describe_event_time(self.time)
        if self.stored_time is None or self.time >= self.stored_time:
            return f"time {given} is the end of time; seal the stream to end it"
        return (
            f"time {given} is below {describe_event_time(self.stored_time)}, which writer "
            f"{self.writer!r} noted before; a noted time is a promise and cannot go back"
        )


@_of("invalid_position", 409)
class InvalidPositionError(ReportRefusedError):
    """A position that cannot be: unknown segment, out of bounds, or going back."""

    segment: int
    offset: int
    reason: str
    stored_position: Position

    @property
    def detail(self) -> str:
        return f"offset {self.offset} of segment {self.segment}: {self.reason}"


@_of("time_in_future", 409)
class TimeInFutureError(ReportRefusedError):
    """A time too far ahead of the server's clock."""

    time: int
    server_time: int
    max_future_skew_ms: int

    @property
    def detail(self) -> str:
        return (
            f"time {self.time} is more than {self.max_future_skew_ms} ms ahead of the server's "
            f"clock ({self.server_time}); are these microseconds? For logical time set "
            "max_future_skew_ms to null"
        )


@_of("stream_sealed", 409)
class StreamSealedError(ReportRefusedError):
    """The stream has its final mark; nothing more is written to it."""

    stream: str

    @property
    def detail(self) -> str:
        return f"stream {self.stream} is sealed; write to another, or create it anew"


@_of("stream_exists", 409)
class StreamExistsError(ProblemError):
    """The stream is there with other settings."""

    stream: str
    differences: Mapping[str, Any]

    @property
    def detail(self) -> str:
        differing = ", ".join(
            f"{name} is {one['stored']!r}, not {one['given']!r}"
            for name, one in self.differences.items()
        )
        return f"stream {self.stream} exists: {differing}; PATCH changes settings"


@_of("immutable_setting", 409)
class ImmutableSettingError(ProblemError):
    """A setting that is fixed once the stream exists."""

    stream: str
    settings: list[str]

    @property
    def detail(self) -> str:
        return (
            f"{', '.join(self.settings)} of stream {self.stream} cannot change; "
            "create another stream"
        )


@_of("stream_replaced", 409)
class StreamReplacedError(ProblemError):
    """The name now belongs to another stream: deleted and created again."""

    stream: str
    stream_id: str
    given_stream_id: str

    @property
    def detail(self) -> str:
        return (
            f"stream {self.stream} was deleted and created again (it is {self.stream_id} now, "
            f"not {self.given_stream_id}); start anew, with a new checkpoint"
        )


@_of("sequence_gap", 409)
class SequenceGapError(ProblemError):
    """An append overtook the one before it; nothing was stored."""

    writer: str
    segment: int
    sequence: int
    expected_sequence: int

    @property
    def detail(self) -> str:
        return (
            f"sequence {self.sequence} of writer {self.writer!r} to segment {self.segment}: "
            f"send {self.expected_sequence} first"
        )


@_of("segment_sealed", 409)
class SegmentSealedError(ProblemError):
    """The segment takes no more events; its successors do."""

    segment: int
    successors: list[int]
    last_sequence: int

    @property
    def detail(self) -> str:
        return (
            f"segment {self.segment} is sealed; route what follows sequence "
            f"{self.last_sequence} to its successors {self.successors}"
        )


@_of("log_is_external", 409)
class LogIsExternalError(ProblemError):
    """The events of this stream live elsewhere."""

    stream: str

    @property
    def detail(self) -> str:
        return (
            f"the events of stream {self.stream} live in an external log; only times and "
            "positions come here"
        )


@_of("not_complete_yet", 409)
class NotCompleteYetError(ProblemError):
    """No mark says yet that everything older than a time is there."""

    stream: str
    time: int
    explanation: str

    @property
    def detail(self) -> str:
        return (
            f"stream {self.stream} is not complete up to {describe_event_time(self.time)}: "
            f"{self.explanation}; wait, or set allowIncomplete=true"
        )


@_of("group_exists", 409)
class GroupExistsError(ProblemError):
    """The reader group is there with other settings."""

    group: str
    differences: Mapping[str, Any]

    @property
    def detail(self) -> str:
        return f"reader group {self.group} exists with other settings: {self.differences}"


@_of("invalid_transition", 409)
class InvalidTransitionError(ProblemError):
    """A change of a reader group's state that breaks one of its laws."""

    reason: str

    @property
    def detail(self) -> str:
        return self.reason


@_of("reader_fenced", 409)
class ReaderFencedError(ProblemError):
    """Another process joined the group under the reader's name, or it was taken offline."""

    reader: str
    epoch: int

    @property
    def detail(self) -> str:
        return (
            f"reader {self.reader!r} was taken over or offline (epoch {self.epoch} now); "
            "this process must stop, or join again"
        )


@_of("unknown_stream", 404)
class UnknownStreamError(ProblemError):
    """There is no such stream."""

    stream: str

    @property
    def detail(self) -> str:
        return f"there is no stream {self.stream}; PUT /v1/streams/{self.stream} creates it"


@_of("unknown_writer", 404)
class UnknownWriterError(ReportRefusedError):
    """The stream never heard of this writer, or forgot it."""

    writer: str

    @property
    def detail(self) -> str:
        return f"there is no writer {self.writer!r}; it registers or notes a time first"


@_of("unknown_segment", 404)
class UnknownStreamSegmentError(ProblemError):
    """The stream has no such segment."""

    segment: int

    @property
    def detail(self) -> str:
        return f"there is no segment {self.segment}; GET the stream to see its topology"


@_of("unknown_group", 404)
class UnknownGroupError(ProblemError):
    """There is no such reader group."""

    group: str

    @property
    def detail(self) -> str:
        return f"there is no reader group {self.group}; PUT /v1/reader-groups/{self.group} creates it"


@_of("unknown_reader", 404)
class UnknownReaderError(ProblemError):
    """The group has no such reader."""

    reader: str

    @property
    def detail(self) -> str:
        return f"there is no reader {self.reader!r} in the group; it joins first"


@_of("not_found", 404)
class NotFoundError(ProblemError):
    """There is no such call."""

    path: str

    @property
    def detail(self) -> str:
        return f"there is nothing at {self.path}; /docs lists every call"


@_of("method_not_allowed", 405)
class MethodNotAllowedError(ProblemError):
    """The path is there, but not with this method."""

    method: str
    path: str

    @property
    def detail(self) -> str:
        return f"{self.path} has no {self.method}; /docs lists every call"


@_of("precondition_failed", 412)
class PreconditionFailedError(ProblemError):
    """Somebody was faster: the entity tag is no longer the newest."""

    etag: str

    @property
    def detail(self) -> str:
        return f"the newest version is {self.etag}; read it and apply the change again"


@_of("precondition_required", 428)
class PreconditionRequiredError(ProblemError):
    """A change that must name the version it is based on."""

    header: str

    @property
    def detail(self) -> str:
        return f"send {self.header} with the ETag of the version that you read"


@_of("body_too_large", 413)
class BodyTooLargeError(ProblemError):
    """A request beyond the limit of the service."""

    limit_bytes: int

    @property
    def detail(self) -> str:
        return f"the body is larger than {self.limit_bytes} bytes; send it in parts"


@_of("unsupported_media_type", 415)
class UnsupportedMediaTypeError(ProblemError):
    """A content type that the call does not take."""

    content_type: str
    expected: str

    @property
    def detail(self) -> str:
        return f"content type {self.content_type!r}: send {self.expected}"


@_of("invalid_request", 422)
class InvalidRequestError(ProblemError):
    """Values that cannot be, whatever is stored."""

    errors: list[dict[str, str]]

    @property
    def detail(self) -> str:
        return "; ".join(f"{one['field']}: {one['message']}" for one in self.errors)

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidRequestError":
        """Refuse one field."""
        return cls([{"field": field, "message": message}])


@_of("unavailable", 503)
class UnavailableError(ProblemError):
    """The database is away, full or closing; nothing was stored. Try again."""

    reason: str

    @property
    def detail(self) -> str:
        return f"nothing was stored: {self.reason}; try again later"


@_of("internal_error", 500)
class InternalError(ProblemError):
    """A defect of the service; its log has the traceback."""

    request: str

    @property
    def detail(self) -> str:
        return f"{self.request} failed by a defect of the service; its log says why"


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
