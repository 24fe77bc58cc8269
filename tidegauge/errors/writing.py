"""Refusals of what writers say and append."""

from tidegauge.errors.base import ProblemError, TidegaugeError, problem
from tidegauge.event_time import describe_event_time, describe_span
from tidegauge.topology import Position


class WriterError(TidegaugeError):
    """The base of what is wrong with a writer: it is fenced, refused or closed, or did not get through."""


class ReportRefusedError(ProblemError, WriterError):
    """A report, registration or leave that changes nothing (section 2 of the rules)."""


@problem("incarnation_required", 409)
class IncarnationRequiredError(ReportRefusedError):
    """The writer registered before, so that every call must name its incarnation."""

    writer: str
    incarnation: int

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} is registered; send its incarnation "
            f"(the newest is {self.incarnation}; from a shell --incarnation {self.incarnation})"
        )


@problem("writer_fenced", 409)
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


@problem("invalid_time", 409)
class InvalidTimeError(ReportRefusedError):
    """A time below the writer's stored one, or the end of time."""

    writer: str
    time: int
    stored_time: int | None

    @property
    def detail(self) -> str:
        given = describe_event_time(self.time)
        if self.stored_time is None or self.time >= self.stored_time:
            return f"{given} is no event time; seal the stream to end it"
        return (
            f"time {given} is below {describe_event_time(self.stored_time)}, which writer "
            f"{self.writer!r} noted before; a noted time is a promise and cannot go back"
        )


@problem("invalid_position", 409)
class InvalidPositionError(ReportRefusedError):
    """A position that cannot be: unknown segment, out of bounds, or going back."""

    segment: int
    offset: int
    reason: str
    stored_position: Position

    def __post_init__(self) -> None:
        # read back from a document, whose keys are strings
        self.stored_position = {int(one): at for one, at in self.stored_position.items()}

    @property
    def detail(self) -> str:
        return f"offset {self.offset} of segment {self.segment}: {self.reason}"


@problem("time_in_future", 409)
class TimeInFutureError(ReportRefusedError):
    """A time too far ahead of the server's clock."""

    time: int
    server_time: int
    max_future_skew_ms: int

    @property
    def detail(self) -> str:
        ahead = describe_span(self.time - self.server_time)
        doubt = "are these microseconds?" if self.time > 10**14 else "is its clock wrong?"
        return (
            f"time {describe_event_time(self.time)} is {ahead} ahead of the server's clock "
            f"({describe_event_time(self.server_time)}), more than max_future_skew_ms="
            f"{self.max_future_skew_ms}; {doubt} For logical time: "
            "tidegauge configure SCOPE/STREAM --max-future-skew-ms null"
        )


@problem("stream_sealed", 409)
class StreamSealedError(ReportRefusedError):
    """The stream has its final mark; nothing more is written to it."""

    stream: str

    @property
    def detail(self) -> str:
        return (
            f"stream {self.stream} is sealed; write to another, or create it anew "
            "(tidegauge delete, then tidegauge create)"
        )


@problem("unknown_writer", 404)
class UnknownWriterError(ReportRefusedError):
    """The stream never heard of this writer, or forgot it."""

    writer: str

    @property
    def detail(self) -> str:
        return f"there is no writer {self.writer!r}; it registers or notes a time first"


@problem("sequence_gap", 409)
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


@problem("segment_sealed", 409)
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
