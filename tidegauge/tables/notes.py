"""The note of a commit: until when a table is complete, as its job declares. All of it is pure.

A table is an external log of one segment whose offsets are its versions. A note of version v says
that every row below ``until`` that is not late is in a version at or below v.
"""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidegauge.event_time import END_OF_TIME, FIRST_TIME

MEMBER = "tidegauge"
"""Of the JSON object in ``userMetadata`` of a Delta commit; the prefix in an Iceberg summary."""

_N = TypeVar("_N")


class Note(BaseModel):
    """What a commit says about time.

    Attributes
    ----------
    until
        No later commit has an on-time row below it, ms; None while the job knows nothing of time,
        and the note only says whose batch this is.
    final
        Whether no later commit has an on-time row at all.
    job
        Who declares: the name of a job, or the stream whose mark this is.
    query
        The id of the query whose batch this is; None outside Spark.
    batch
        Its number.
    late
        Rows of this commit below the ``until`` of the commits before it.
    took_over
        Whether the query began with it to declare in place of another one, or after notes that
        had ended. Such a note says no time, and has no rows.
    shared
        Whether the job is a stream, to which several queries note time.
    column
        Of which column or field this is the time, such as ``window.start``; None if it is not said.
    """

    # Strict: JSON's true is no time.
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    until: Annotated[int | None, Field(ge=FIRST_TIME, le=END_OF_TIME)] = None
    final: bool = False
    job: str
    query: str | None = None
    batch: int | None = None
    late: int = 0
    took_over: bool = False
    shared: bool = False
    column: str | None = None

    @property
    def time(self) -> int | None:
        """The time that it says, ms: the end of time where it is final; None if it says none."""
        return END_OF_TIME if self.final else self.until

    @property
    def declarer(self) -> str:
        """Whose commits come one after another: a query, or outside Spark a job."""
        return self.query or self.job

    def agrees_with(self, other: "Note") -> bool:
        """Whether both are notes of one stream, of one query, or of a job where one names no query."""
        if (self.job, self.shared) != (other.job, other.shared):
            return False
        return self.shared or None in (self.query, other.query) or self.query == other.query

    def to_metadata(self, own: str | None = None) -> str:
        """Write it as ``userMetadata`` of a Delta commit, as a member of what a user has there.

        Raises
        ------
        ValueError
            If that is no JSON object.
        """
        others = {} if own is None else _object(own)
        if others is None:
            msg = f"userMetadata {own!r} is no JSON object, of which the note can be a member; make it one"
            raise ValueError(msg)
        return json.dumps({**others, MEMBER: self._written()})

    @classmethod
    def from_metadata(cls, metadata: str | None) -> Self | None:
        """Read it from ``userMetadata``; None if that has no note.

        Raises
        ------
        ValueError
            If a note is there, and is none that this version can read.
        """
        member = (_object(metadata) or {}).get(MEMBER)
        return None if member is None else _valid(cls.model_validate, member)

    def to_summary(self) -> dict[str, str]:
        """Write it as entries of the summary of an Iceberg snapshot."""
        return {
            f"{MEMBER}.{name}": str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in self._written().items()
        }

    @classmethod
    def from_summary(cls, summary: Mapping[str, str]) -> Self | None:
        """Read it from the summary of a snapshot; None if that has no note.

        Raises
        ------
        ValueError
            If a note is there, and is none that this version can read.
        """
        prefix = f"{MEMBER}."
        members = {
            name[len(prefix) :]: value
            for name, value in summary.items()
            if name.startswith(prefix)
        }
        return _valid(cls.model_validate_strings, members) if members else None

    def _written(self) -> dict[str, Any]:
        unsaid = {name for name in ("took_over", "shared") if not getattr(self, name)}
        return self.model_dump(exclude_none=True, exclude=unsaid)


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _valid(read: Callable[[Any], _N], value: object) -> _N:
    try:
        return read(value)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(map(str, wrong["loc"]))
        msg = f"is not readable: {place}: {wrong['msg']}"
        raise ValueError(msg) from None
