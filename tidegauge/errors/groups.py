"""Refusals of what reader groups and their readers do."""

from collections.abc import Mapping
from typing import Any

from tidegauge.errors.base import ProblemError, problem


@problem("group_exists", 409)
class GroupExistsError(ProblemError):
    """The reader group is there with other settings."""

    group: str
    differences: Mapping[str, Any]

    @property
    def detail(self) -> str:
        return f"reader group {self.group} exists with other settings: {self.differences}"


@problem("invalid_transition", 409)
class InvalidTransitionError(ProblemError):
    """A change of a reader group's state that breaks one of its laws."""

    reason: str

    @property
    def detail(self) -> str:
        return self.reason


@problem("reader_fenced", 409)
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


@problem("unknown_group", 404)
class UnknownGroupError(ProblemError):
    """There is no such reader group."""

    group: str

    @property
    def detail(self) -> str:
        return (
            f"there is no reader group {self.group}; to create it: ReaderGroup.create in Python, "
            f"PUT /v1/reader-groups/{self.group} over HTTP"
        )


@problem("unknown_reader", 404)
class UnknownReaderError(ProblemError):
    """The group has no such reader."""

    reader: str

    @property
    def detail(self) -> str:
        return f"there is no reader {self.reader!r} in the group; it joins first"
