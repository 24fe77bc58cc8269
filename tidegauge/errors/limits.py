"""Refusals of more than the service was set to take."""

from tidegauge.errors.base import ProblemError, problem
from tidegauge.errors.writing import ReportRefusedError


@problem("name_too_long", 422)
class NameTooLongError(ProblemError):
    """A new name beyond the limit of the service."""

    name: str
    limit: int

    @property
    def detail(self) -> str:
        return (
            f"{self.name!r} has {len(self.name)} characters; this service takes {self.limit} "
            "(max_name_length)"
        )


@problem("too_many_segments", 422)
class TooManySegmentsError(ReportRefusedError):
    """A position that names more segments than the service takes."""

    segments: int
    limit: int

    @property
    def detail(self) -> str:
        return (
            f"the position names {self.segments} segments; this service takes {self.limit} at "
            "once: raise --max-position-segments, or, where a writer or a reader reports, name "
            "only those that changed"
        )


@problem("too_many_writers", 409)
class TooManyWritersError(ReportRefusedError):
    """A new writer of a stream that has as many as it may."""

    stream: str
    limit: int

    @property
    def detail(self) -> str:
        return (
            f"stream {self.stream} knows {self.limit} writers, as many as it may "
            "(max_writers_per_stream); names that are chosen anew at every start are the usual "
            "cause: writer_retention_ms says when those that left are forgotten"
        )


@problem("too_many_streams", 409)
class TooManyStreamsError(ProblemError):
    """A new stream in a service that has as many as it may."""

    limit: int

    @property
    def detail(self) -> str:
        return (
            f"there are {self.limit} streams, as many as there may be; delete some, or raise "
            "--max-streams"
        )


@problem("too_many_groups", 409)
class TooManyGroupsError(ProblemError):
    """A new reader group in a service that has as many as it may."""

    limit: int

    @property
    def detail(self) -> str:
        return (
            f"there are {self.limit} reader groups, as many as there may be; delete some, or raise "
            "--max-groups"
        )


@problem("too_many_waiting", 429)
class TooManyWaitingError(ProblemError):
    """A long poll, while as many are waiting as may."""

    limit: int

    @property
    def detail(self) -> str:
        return (
            f"{self.limit} calls wait for news, as many as may (max_long_polls); try again "
            "soon, or without wait_ms"
        )
