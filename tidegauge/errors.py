"""Every error of Tidegauge: one class a code, the same on the server and in the clients.

The service answers each as an RFC 9457 problem document with a stable ``code``; the clients
read the document back into the same class, so that a caller recovers from typed data
(`WriterFencedError.incarnation`) and never parses a message.
"""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from threading import RLock
from typing import Annotated, Any, ClassVar, Literal, Self, dataclass_transform

from tidegauge.event_time import describe_event_time, describe_span
from tidegauge.topology import Position

PROBLEMS: dict[str, type["ProblemError"]] = {}
"""Every problem by its code."""
_making = RLock()

# An answer says what is wrong with a request; it must not be as large as one of megabytes.
_LONGEST_HALF = 500
_MOST_ERRORS = 100

Sent = Annotated[str, "as it was sent"]
"""The type of a field that holds what a caller sent, of any length: it is shortened."""


class TidegaugeError(Exception):
    """The base of everything that Tidegauge raises on purpose."""


@dataclass_transform(eq_default=False)
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
    message: ClassVar[str]
    """What `detail` says, with the names of fields in braces."""

    def __init_subclass__(cls, *, code: str | None = None, status: int = 0) -> None:
        """Make a class the error of a code, which is answered with a status."""
        if code is not None:
            cls.code, cls.status = code, status
            PROBLEMS[code] = cls

    def __new__(cls, *values: Any, **named: Any) -> Self:  # noqa: ANN401 (its fields)
        fields_of(cls)  # gives the class its `__init__`
        return super().__new__(cls, *values, **named)

    def __post_init__(self) -> None:
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if field.type is Sent:
                setattr(self, field.name, shortened(value))
            elif field.type == Position:
                # Read back from a document, whose keys are strings.
                setattr(self, field.name, {int(number): at for number, at in value.items()})

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"

    @property
    def detail(self) -> str:
        """What happened and what to do, with the values, for a person."""
        return self.message.format_map(vars(self))

    def document(self) -> dict[str, Any]:
        """Make the problem document."""
        return {
            "type": f"urn:tidegauge:{self.code}",
            "title": self.code.replace("_", " "),
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **{field.name: getattr(self, field.name) for field in fields_of(type(self))},
        }


def fields_of(problem: type[ProblemError]) -> Sequence[Field[Any]]:
    """Return the fields of a problem, in the order in which its class takes them.

    It makes the class a dataclass first. Making all of them at once would be a sixth of what
    ``import spark_source`` takes above its libraries, and each of Spark's Python processes imports.
    """
    if "__init__" not in vars(problem):
        with _making:  # threads may raise the same error first
            for base in problem.__bases__:
                if issubclass(base, ProblemError):
                    fields_of(base)
            if "__init__" not in vars(problem):
                dataclass(eq=False)(problem)
    return fields(problem)  # type: ignore[arg-type] # it is a dataclass now


def problem_of(document: Mapping[str, Any]) -> ProblemError:
    """Read a problem document back into the error it came from.

    Raises
    ------
    KeyError
        If the code is unknown or a field is missing: not a document of this version.
    """
    cls = PROBLEMS[document["code"]]
    return cls(*(document[field.name] for field in fields_of(cls)))


def shortened(text: str) -> str:
    """Return what was sent without its middle: enough to recognize it in an answer.

    What is wrong begins a message, and the cure ends it. A shortened text stays as it is.
    """
    if len(text) <= 2 * _LONGEST_HALF:
        return text
    return f"{text[:_LONGEST_HALF]} … {text[-_LONGEST_HALF:]}"


class UnauthenticatedError(ProblemError, code="unauthenticated", status=401):
    """A call without a valid token."""

    reason: Literal["missing", "repeated", "unknown", "expired"]

    @property
    def detail(self) -> str:
        return {
            "missing": (
                "no token was sent; set TIDEGAUGE_TOKEN or --token in a shell, give clients "
                "token=, or send the header `Authorization: Bearer TOKEN`"
            ),
            "repeated": "more than one header `Authorization` was sent; send one",
            "unknown": "the token is unknown: it belongs to another service, or was revoked",
            "expired": "the token has expired; create another with `tidegauge token new`",
        }[self.reason]


class ForbiddenError(ProblemError, code="forbidden", status=403):
    """The token is valid, but not for this call."""

    token_name: str
    role: str
    scope: str
    message = (
        "token {token_name!r} may not do this in scope {scope!r}; it needs the role {role} "
        "there, which an administrator of the service can grant"
    )


class NotFoundError(ProblemError, code="not_found", status=404):
    """There is no such call."""

    path: Sent
    message = "there is no call {path}; /docs lists all calls"


class MethodNotAllowedError(ProblemError, code="method_not_allowed", status=405):
    """The path exists, but not with this method."""

    method: str
    path: Sent
    message = "{path} does not support {method}; /docs lists all calls"


class PreconditionFailedError(ProblemError, code="precondition_failed", status=412):
    """Another change was faster: the entity tag is no longer the newest."""

    etag: str
    message = "the newest version is {etag}; read it and apply the change again"


class PreconditionRequiredError(ProblemError, code="precondition_required", status=428):
    """A change that must name the version it is based on."""

    header: str
    message = "send {header} with the ETag of the version that you read"


class BodyTooLargeError(ProblemError, code="body_too_large", status=413):
    """A request beyond the limit of the service."""

    limit_bytes: int
    setting: str = "max_body_bytes"

    @property
    def detail(self) -> str:
        what, cure = "body", "send it in parts"
        if self.setting == "max_report_bytes":
            what, cure = "report", "name only the segments that changed, or raise the limit"
        return f"the {what} is larger than {self.limit_bytes} bytes ({self.setting}); {cure}"


class MisdirectedRequestError(ProblemError, code="misdirected_request", status=421):
    """A host that a service without tokens does not answer for.

    A page of another site can make its own name mean this machine, and so reach the service. It
    cannot send another name than its own.
    """

    host: Sent
    message = (
        "the header `Host` is {host!r}; a service without authentication accepts localhost and "
        "127.0.0.1 only; with --insecure, browsers may also use an address, or a name in "
        "--browser-hosts; use one of them, or start the service with --tokens FILE (or with "
        "--insecure, if something else keeps strangers out)"
    )


class ForeignOriginError(ProblemError, code="foreign_origin", status=403):
    """A page of another site that calls a service without tokens, to change something."""

    origin: Sent
    message = (
        "a page of {origin!r} may only read from a service without authentication; call the "
        "service from its own pages or outside a browser, or start it with --tokens FILE (or with "
        "--insecure, if something else keeps strangers out)"
    )


class UnsupportedMediaTypeError(ProblemError, code="unsupported_media_type", status=415):
    """A content type that the call does not take."""

    content_type: Sent
    expected: str

    @property
    def detail(self) -> str:
        given = (
            f"content type {self.content_type!r}" if self.content_type else "no content type"
        )
        return f"{given}: send the header `Content-Type: {self.expected}`"


class UnsupportedContentEncodingError(
    ProblemError, code="unsupported_content_encoding", status=415
):
    """A compressed body; no call takes one."""

    content_encoding: Sent
    message = (
        "content encoding {content_encoding!r}: send the body uncompressed, without the header "
        "`Content-Encoding`"
    )


class InvalidRequestError(ProblemError, code="invalid_request", status=422):
    """Values that are never valid, whatever is stored."""

    errors: list[dict[str, str]]

    def __post_init__(self) -> None:
        self.errors = [
            {name: shortened(text) for name, text in error.items()}
            for error in self.errors[:_MOST_ERRORS]
        ]

    @property
    def detail(self) -> str:
        return "; ".join(f"{error['field']}: {error['message']}" for error in self.errors)

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidRequestError":
        """Refuse one field."""
        return cls([{"field": field, "message": message}])


class UnavailableError(ProblemError, code="unavailable", status=503):
    """The database is unavailable, full or closing; nothing was stored. Try again."""

    reason: str
    message = "nothing was stored: {reason}; try again later"


class StandsByError(ProblemError, code="stands_by", status=307):
    """The controller stands by for the one at ``Location``, which holds the database."""

    location: str
    message = "this controller stands by; ask {location}"


class UnhealthyError(ProblemError, code="unhealthy", status=503):
    """The answer to a probe while something is wrong."""

    reasons: list[str]

    @property
    def detail(self) -> str:
        return "; ".join(self.reasons)


class ScopeRequiredError(ProblemError, code="scope_required", status=404):
    """A proxy in front of several services got a call that names no scope in its address."""

    message = "this call names no scope; ask a service by its own URL, not the proxy of scopes"


class OutcomeUnknownError(ProblemError, code="outcome_unknown", status=502):
    """The controller was lost before it answered; the change may be stored or not."""

    reason: str
    message = (
        "it is unknown whether the change was stored: {reason}; check, or repeat the call if that "
        "does no harm"
    )


class InternalError(ProblemError, code="internal_error", status=500):
    """A defect of the service; its log has the traceback."""

    request: str
    message = "{request} failed because of a defect of the service; see its log"


class StreamExistsError(ProblemError, code="stream_exists", status=409):
    """The stream exists with other settings."""

    stream: str
    differences: Mapping[str, Any]

    @property
    def detail(self) -> str:
        shown = {
            name: [
                "null" if difference[side] is None else difference[side]
                for side in ("stored", "given")
            ]
            for name, difference in self.differences.items()
        }
        differing = ", ".join(
            f"{name} is {stored}, not {given}" for name, (stored, given) in shown.items()
        )
        options = [
            f"--{name.replace('_', '-')} {given}"
            for name, (_, given) in shown.items()
            if name not in {"log", "segments"}  # no change takes these
        ]
        cure = "this cannot change: leave it out, or create another stream"
        if options:
            cure = (
                f"to change it: tidegauge configure {self.stream} {' '.join(options)} "
                "(in Python StreamClient.configure, over HTTP PATCH)"
            )
        return f"stream {self.stream} exists: {differing}; {cure}"


class ImmutableSettingError(ProblemError, code="immutable_setting", status=409):
    """A setting that is fixed once the stream exists."""

    stream: str
    settings: list[str]

    @property
    def detail(self) -> str:
        return (
            f"{', '.join(self.settings)} of stream {self.stream} cannot change; "
            "create another stream (tidegauge create, in Python StreamClient.create)"
        )


class StreamReplacedError(ProblemError, code="stream_replaced", status=409):
    """The name now belongs to another stream: deleted and created again."""

    stream: str
    stream_id: str
    given_stream_id: Sent
    message = (
        "stream {stream} was deleted and created again (it is {stream_id} now, not "
        "{given_stream_id}); start again with a new checkpoint"
    )


class LogIsExternalError(ProblemError, code="log_is_external", status=409):
    """The events of this stream live elsewhere."""

    stream: str
    message = (
        "the events of stream {stream} are stored in an external log, and only times and positions "
        "here; write, read, scale and truncate them there"
    )


class NotCompleteYetError(ProblemError, code="not_complete_yet", status=409):
    """No mark says yet that everything older than a time has arrived."""

    stream: str
    time: int
    explanation: str

    @property
    def detail(self) -> str:
        return (
            f"stream {self.stream} is not complete up to {describe_event_time(self.time)}: "
            f"{self.explanation}; wait, or set allowIncomplete=true"
        )


class UnknownStreamError(ProblemError, code="unknown_stream", status=404):
    """There is no such stream."""

    stream: str
    message = (
        "there is no stream {stream}; to create it: tidegauge create {stream} (in Python "
        "StreamClient.create, over HTTP PUT /v1/streams/{stream})"
    )


class UnknownStreamSegmentError(ProblemError, code="unknown_segment", status=404):
    """The stream has no such segment."""

    segment: int
    message = (
        "there is no segment {segment}; list the segments of the stream (in Python "
        "StreamClient.topology, over HTTP GET of the stream)"
    )


class WriterError(TidegaugeError):
    """The base of what is wrong with a writer: it is fenced, refused or closed, or did not get through."""


class ReportRefusedError(ProblemError, WriterError):
    """A report, registration or leave that changes nothing (section 2 of the rules)."""


class IncarnationRequiredError(ReportRefusedError, code="incarnation_required", status=409):
    """The writer registered before, so that every call must name its incarnation."""

    writer: str
    incarnation: int
    message = (
        "writer {writer!r} is registered; send its incarnation (the newest is {incarnation}; "
        "from a shell --incarnation {incarnation})"
    )


class WriterFencedError(ReportRefusedError, code="writer_fenced", status=409):
    """A newer process registered under the writer's name."""

    writer: str
    incarnation: int
    message = (
        "writer {writer!r} was registered again as incarnation {incarnation}; this process "
        "must stop, or register to take over"
    )


class InvalidTimeError(ReportRefusedError, code="invalid_time", status=409):
    """A time below the writer's stored one, or the end of time."""

    writer: str
    time: int
    stored_time: int | None

    @property
    def detail(self) -> str:
        given = describe_event_time(self.time)
        if self.stored_time is None or self.time >= self.stored_time:
            return f"{given} is not an event time; to end the stream, seal it"
        return (
            f"time {given} is below {describe_event_time(self.stored_time)}, which writer "
            f"{self.writer!r} noted before; a noted time is a promise and cannot go back"
        )


class InvalidPositionError(ReportRefusedError, code="invalid_position", status=409):
    """An impossible position: an unknown segment, out of bounds, or going back."""

    segment: int
    offset: int
    reason: str
    stored_position: Position
    message = "offset {offset} of segment {segment}: {reason}"


class TimeInFutureError(ReportRefusedError, code="time_in_future", status=409):
    """A time too far ahead of the server's clock."""

    time: int
    server_time: int
    max_future_skew_ms: int

    @property
    def detail(self) -> str:
        ahead = describe_span(self.time - self.server_time)
        # In milliseconds this is the year 5138, in microseconds 1973.
        of_clocks = "the writer's clock is ahead, or the server's is behind."
        doubt = "are these microseconds?" if self.time > 10**14 else of_clocks
        return (
            f"time {describe_event_time(self.time)} is {ahead} ahead of the server's clock "
            f"({describe_event_time(self.server_time)}), more than max_future_skew_ms="
            f"{self.max_future_skew_ms}; {doubt} For logical time: "
            "tidegauge configure SCOPE/STREAM --max-future-skew-ms null"
        )


class StreamSealedError(ReportRefusedError, code="stream_sealed", status=409):
    """The stream has its final mark; nothing more is written to it."""

    stream: str
    message = (
        "stream {stream} is sealed; write to another stream, or create it again (tidegauge delete, "
        "then tidegauge create)"
    )


class UnknownWriterError(ReportRefusedError, code="unknown_writer", status=404):
    """The stream does not know this writer, or forgot it."""

    writer: str
    message = "there is no writer {writer!r}; register it, or note a time"


class SequenceGapError(ProblemError, code="sequence_gap", status=409):
    """An append overtook the one before it; nothing was stored."""

    writer: str
    segment: int
    sequence: int
    expected_sequence: int
    message = (
        "sequence {sequence} of writer {writer!r} to segment {segment}: send "
        "{expected_sequence} first"
    )


class SegmentSealedError(ProblemError, code="segment_sealed", status=409):
    """The segment takes no more events; its successors do.

    ``continuation`` has all that you need to route on, in the form of `GET {stream}`.
    """

    segment: int
    successors: list[int]
    last_sequence: int
    topology_revision: int
    continuation: list[dict[str, Any]]
    message = (
        "segment {segment} is sealed; route the events after sequence {last_sequence} to its "
        "successors {successors}"
    )


class UnknownTransactionError(ProblemError, code="unknown_transaction", status=404):
    """There is no such transaction, or it was finished more than a day ago."""

    transaction: Sent
    message = (
        "there is no transaction {transaction!r}; finished ones are remembered for 24 h: begin "
        "another"
    )


class TransactionFinishedError(ProblemError, code="transaction_finished", status=409):
    """The transaction takes nothing any more: it was committed, or aborted."""

    transaction: str
    state: str

    @property
    def detail(self) -> str:
        cure = "begin another"
        if self.state == "aborted":
            cure += (
                "; its lease ran out (ping it in time), its writer registered again or left, the "
                "stream was sealed, or somebody aborted it"
            )
        return f"transaction {self.transaction} is {self.state}; {cure}"


class TooManyTransactionsError(ProblemError, code="too_many_transactions", status=409):
    """A new transaction of a stream that has as many open ones as it may have."""

    stream: str
    limit: int
    message = (
        "stream {stream} has {limit} open transactions, which is the limit "
        "(max_transactions_per_stream); commit or abort some, or wait until leases run out"
    )


class TransactionTooLargeError(ProblemError, code="transaction_too_large", status=413):
    """More events than a transaction may have; what was staged before is kept."""

    transaction: str
    size: int
    limit_bytes: int
    message = (
        "transaction {transaction} would have {size} bytes of events; the limit is {limit_bytes} "
        "(max_transaction_bytes); commit it and continue in another"
    )


class TopologyChangedError(ProblemError, code="topology_changed", status=409):
    """The stream has other segments than a scaling is based on."""

    stream: str
    topology_revision: int
    reason: str
    message = (
        "{reason}; the topology of stream {stream} is at revision {topology_revision}: read it, "
        "and scale its growing segments"
    )


class TruncatedError(ProblemError, code="truncated", status=410):
    """Events that were dropped: the segment begins at a later offset by now."""

    stream: str
    segment: int
    offset: int
    first_offset: int
    message = (
        "offset {offset} of segment {segment} of stream {stream} was truncated; continue from its "
        "first offset, {first_offset}"
    )


class EventsNeededError(ProblemError, code="events_needed", status=409):
    """A truncation of what a reader group has not read yet, or may go back to."""

    stream: str
    group: str
    checkpoint: str | None
    position: Position

    @property
    def detail(self) -> str:
        who, cure = f"reader group {self.group}", "let the group read further, delete it"
        if self.checkpoint is not None:
            who = f"checkpoint {self.checkpoint!r} of {who}"
            cure = "take the checkpoint again, delete the group"
        at = ",".join(f"{number}:{offset}" for number, offset in sorted(self.position.items()))
        return (
            f"{who} still needs events of stream {self.stream}: it is at {at}; truncate "
            f"before that, {cure} (in Python ReaderGroup.delete), or "
            "drop them anyway with force=true (from a shell --force)"
        )


class SegmentLimitError(ProblemError, code="segment_limit", status=409):
    """A scaling after which a stream would have more segments than it may."""

    stream: str
    segments: int
    limit: int
    counted: Literal["growing", "all"]

    @property
    def detail(self) -> str:
        if self.counted == "all":
            return (
                f"stream {self.stream} would have {self.segments} segments, sealed ones included; "
                f"the limit is {self.limit}: continue with another stream"
            )
        return (
            f"stream {self.stream} would have {self.segments} growing segments; the limit is "
            f"{self.limit}; merge some, or raise it: tidegauge configure {self.stream} "
            f"--max-segments {self.segments} (in Python StreamClient.configure, over HTTP PATCH)"
        )


class GroupExistsError(ProblemError, code="group_exists", status=409):
    """The reader group exists with other settings."""

    group: str
    differences: Mapping[str, Any]
    message = "reader group {group} exists with other settings: {differences}"


class InvalidTransitionError(ProblemError, code="invalid_transition", status=409):
    """A change of a reader group's state that breaks one of its laws."""

    reason: str
    message = "{reason}"


class ReaderFencedError(ProblemError, code="reader_fenced", status=409):
    """Another process joined the group under the reader's name, or it was taken offline."""

    reader: str
    epoch: int
    message = (
        "reader {reader!r} was taken over or taken offline (its epoch is {epoch} now); this "
        "process must stop, or join again"
    )


class UnknownGroupError(ProblemError, code="unknown_group", status=404):
    """There is no such reader group."""

    group: str
    message = (
        "there is no reader group {group}; to create it: ReaderGroup.create in Python, PUT "
        "/v1/reader-groups/{group} over HTTP"
    )


class UnknownReaderError(ProblemError, code="unknown_reader", status=404):
    """The group has no such reader."""

    reader: str
    message = "there is no reader {reader!r} in the group; join first"


class NameTooLongError(ProblemError, code="name_too_long", status=422):
    """A new name beyond the limit of the service."""

    name: str
    limit: int

    @property
    def detail(self) -> str:
        return (
            f"{self.name!r} has {len(self.name)} characters; the limit is {self.limit} "
            "(max_name_length)"
        )


class TooManySegmentsError(ReportRefusedError, code="too_many_segments", status=422):
    """A position that names more segments than the service takes."""

    segments: int
    limit: int
    message = (
        "the position names {segments} segments; the limit is {limit}: raise "
        "--max-position-segments or, in reports of writers and readers, name only the segments "
        "that changed"
    )


class TooManyWritersError(ReportRefusedError, code="too_many_writers", status=409):
    """A new writer of a stream that has as many as it may have."""

    stream: str
    limit: int
    message = (
        "stream {stream} has {limit} writers, which is the limit (max_writers_per_stream); "
        "new names at every start are the usual cause: writer_retention_ms sets how long writers "
        "that left are remembered"
    )


class TooManyStreamsError(ProblemError, code="too_many_streams", status=409):
    """A new stream in a service that has as many as it may have."""

    limit: int
    message = (
        "there are {limit} streams, which is the limit; delete some, or raise --max-streams"
    )


class TooManyGroupsError(ProblemError, code="too_many_groups", status=409):
    """A new reader group in a service that has as many as it may have."""

    limit: int
    message = "there are {limit} reader groups, which is the limit; delete some, or raise --max-groups"


class TooManyWaitingError(ProblemError, code="too_many_waiting", status=429):
    """A long poll, while as many calls wait as may."""

    limit: int
    message = (
        "{limit} calls wait for news, which is the limit (max_long_polls); try again soon, or "
        "without wait_ms"
    )
