"""Refusals that concern a stream as a whole."""

from collections.abc import Mapping
from typing import Any

from tidegauge.errors.base import ProblemError, problem, shortened
from tidegauge.event_time import describe_event_time

_FIXED = {"log", "segments"}
"""Settings that no change takes."""


@problem("stream_exists", 409)
class StreamExistsError(ProblemError):
    """The stream is there with other settings."""

    stream: str
    differences: Mapping[str, Any]

    @property
    def detail(self) -> str:
        differing = ", ".join(
            f"{name} is {_shown(one['stored'])}, not {_shown(one['given'])}"
            for name, one in self.differences.items()
        )
        return f"stream {self.stream} exists: {differing}; {self._cure()}"

    def _cure(self) -> str:
        options = [
            f"--{name.replace('_', '-')} {_shown(one['given'])}"
            for name, one in self.differences.items()
            if name not in _FIXED
        ]
        if not options:
            return "that is fixed: leave it out, or create another stream"
        return (
            f"to change it: tidegauge configure {self.stream} {' '.join(options)} "
            "(in Python StreamClient.configure, over HTTP PATCH)"
        )


def _shown(value: object) -> str:
    return "null" if value is None else str(value)


@problem("immutable_setting", 409)
class ImmutableSettingError(ProblemError):
    """A setting that is fixed once the stream exists."""

    stream: str
    settings: list[str]

    @property
    def detail(self) -> str:
        return (
            f"{', '.join(self.settings)} of stream {self.stream} cannot change; "
            "create another stream (tidegauge create, in Python StreamClient.create)"
        )


@problem("stream_replaced", 409)
class StreamReplacedError(ProblemError):
    """The name now belongs to another stream: deleted and created again."""

    stream: str
    stream_id: str
    given_stream_id: str

    def __post_init__(self) -> None:
        self.given_stream_id = shortened(self.given_stream_id)

    @property
    def detail(self) -> str:
        return (
            f"stream {self.stream} was deleted and created again (it is {self.stream_id} now, "
            f"not {self.given_stream_id}); start anew, with a new checkpoint"
        )


@problem("log_is_external", 409)
class LogIsExternalError(ProblemError):
    """The events of this stream live elsewhere."""

    stream: str

    @property
    def detail(self) -> str:
        return (
            f"the events of stream {self.stream} live in an external log; only times and "
            "positions come here"
        )


@problem("not_complete_yet", 409)
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


@problem("unknown_stream", 404)
class UnknownStreamError(ProblemError):
    """There is no such stream."""

    stream: str

    @property
    def detail(self) -> str:
        return (
            f"there is no stream {self.stream}; to create it: tidegauge create {self.stream} "
            f"(in Python StreamClient.create, over HTTP PUT /v1/streams/{self.stream})"
        )


@problem("unknown_segment", 404)
class UnknownStreamSegmentError(ProblemError):
    """The stream has no such segment."""

    segment: int

    @property
    def detail(self) -> str:
        return (
            f"there is no segment {self.segment}; the stream tells which there are "
            "(in Python StreamClient.topology, over HTTP GET of the stream)"
        )
