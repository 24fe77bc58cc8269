"""Messages about reader groups."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from tidegauge import groups
from tidegauge.json_text import show_json
from tidegauge.topology import Position
from tidegauge.wire.streams import MarkInfo, StreamFacts
from tidegauge.wire.values import (
    Answer,
    Between,
    EventTime,
    Integer,
    Name,
    Request,
    WirePosition,
)

MOST_LATE_WRITERS = 10
"""Each is a series of Prometheus, which keeps every one that it ever saw."""


def _check_by_stream(value: object) -> object:
    """Refuse a position without its stream, with what to send."""
    if isinstance(value, Mapping) and all(
        isinstance(position, Mapping) for position in value.values()
    ):
        return value
    msg = (
        f"{show_json(value)} is not a position for each stream; send an object such as "
        '{"scope/stream": {"0": 40, "1": 12}}'
    )
    raise ValueError(msg)


StreamOffsets = Annotated[
    dict[str, WirePosition],
    BeforeValidator(_check_by_stream),
    Field(description="For each `scope/stream`, segment to offset."),
]


class CreateGroup(Request):
    """``PUT /v1/reader-groups/{scope}/{group}``."""

    streams: list[str] = Field(
        min_length=1,
        max_length=1_000,
        description="Streams that the group reads, each as `scope/stream`.",
    )
    start: Literal["earliest", "latest"] = Field(
        "earliest", description="Where it starts, unless a time or a cut is given."
    )
    start_time: EventTime | None = Field(
        None, description="Start where no event at or above this time is missed, ms."
    )
    start_cut: StreamOffsets | None = Field(
        None, description="Start at this cut of each stream."
    )
    heartbeat_ms: Annotated[Integer, Between(100, 3_600_000)] = Field(
        3_000, description="Interval of the readers' heartbeats, ms."
    )
    dead_after_ms: Annotated[Integer, Between(200, 86_400_000)] = Field(
        15_000, description="A reader without a heartbeat for this long is taken offline, ms."
    )

    @model_validator(mode="after")
    def _check_heartbeat(self) -> Self:
        if self.dead_after_ms <= self.heartbeat_ms:
            msg = (
                f"dead_after_ms is {self.dead_after_ms}, and readers are heard of every "
                f"heartbeat_ms, {self.heartbeat_ms}: make it longer"
            )
            raise ValueError(msg)
        return self


class ReaderDocument(Request):
    """One reader in the shared state."""

    epoch: Integer = Field(description="Epoch of the process that has the name.")
    owned: StreamOffsets = Field(description="Segments of the reader, with confirmed offsets.")


class StateDocument(Request):
    """The shared state of a group, as it is read and written: who writes must know all of it."""

    readers: dict[Name, ReaderDocument] = Field(description="The readers by name.")
    unassigned: StreamOffsets = Field(description="Open segments without an owner.")
    completed: StreamOffsets = Field(description="Segments read to their end.")
    epochs: Integer = Field(description="Highest epoch that was assigned.")
    checkpoints: dict[str, StreamOffsets] = Field(description="Named positions.")

    @classmethod
    def of(cls, state: groups.GroupState) -> "StateDocument":
        """Write a state."""
        return cls(
            readers={
                name: ReaderDocument(epoch=reader.epoch, owned=by_stream(reader.owned))
                for name, reader in state.readers.items()
            },
            unassigned=by_stream(state.unassigned),
            completed=by_stream(state.completed),
            epochs=state.epochs,
            checkpoints={
                name: by_stream(offsets) for name, offsets in state.checkpoints.items()
            },
        )

    def to_state(self) -> groups.GroupState:
        """Read a state back."""
        return groups.GroupState(
            readers={
                name: groups.ReaderState(reader.epoch, by_segment(reader.owned))
                for name, reader in self.readers.items()
            },
            unassigned=by_segment(self.unassigned),
            completed=by_segment(self.completed),
            epochs=self.epochs,
            checkpoints={
                name: by_segment(offsets) for name, offsets in self.checkpoints.items()
            },
        )


class GroupInfo(Answer):
    """A group and its shared state."""

    group: str = Field(description="scope/group.")
    streams: list[str] = Field(description="Streams that it reads.")
    stream_ids: dict[str, str] = Field(description="Ids of those streams.")
    heartbeat_ms: int = Field(description="Interval of the readers' heartbeats, ms.")
    dead_after_ms: int = Field(
        description="When a reader without a heartbeat is taken offline, ms."
    )
    revision: int = Field(description="Revision of the shared state.")
    state: StateDocument = Field(description="The shared state.")


class TimeWindowInfo(StreamFacts):
    """The time window of a group in one of its streams."""

    stream: str = Field(description="scope/stream.")
    lower: int | None = Field(description="Everything older has been read, ms.")
    upper: int | None = Field(
        description="How far writers had noted time at the first mark whose cut the group has "
        "passed in no segment, ms. Null once it has read beyond the newest mark in one segment, even "
        "if it is behind in others: `next_mark` says whether it is."
    )
    position: WirePosition = Field(description="Position of the whole group.")
    next_mark: MarkInfo | None = Field(
        None,
        description="The first mark whose cut the group has not read up to: it keeps the window "
        "back; null where it has read up to the newest.",
    )


class GroupWindows(Answer):
    """``GET …/time-window``: in all streams of the group, but for those that are deleted."""

    group: str = Field(description="scope/group.")
    lower: int | None = Field(
        description="Everything older has been read in all streams, ms; null while one has none."
    )
    upper: int | None = Field(
        description="How far writers had noted time at the next marks, ms; null once the group is at "
        "the tail of one stream."
    )
    windows: list[TimeWindowInfo] = Field(
        description="One window for each stream of the group that still exists."
    )
    now_ms: int = Field(description="Wall clock of the service, ms.")


class ListedGroup(GroupInfo):
    """A group in a list."""

    windows: list[TimeWindowInfo] | None = Field(
        None,
        description="With `windows`: in each of its streams that still exists and that the caller may "
        "see; null without.",
    )


class ReaderInfo(Answer):
    """One reader of a group, by its heartbeats and positions."""

    reader: str = Field(description="Name of the reader.")
    epoch: int = Field(description="Epoch of the process that has the name.")
    segments: int = Field(description="Number of segments that it owns.")
    silent_ms: int = Field(
        description="Time since its last heartbeat, ms: beyond `dead_after_ms` it is taken offline."
    )
    advanced_ms: int | None = Field(
        description="Time since its position advanced, ms; null if it has not since it joined, or since "
        "a controller took over."
    )


Count = Annotated[Integer, Between(0)]


class GroupProgress(Request):
    """``POST …/progress``: how far the query has come that reads with a group.

    Rows are counted since the query started: a total that is sent twice counts once.
    """

    bound: EventTime | None = Field(
        None, description="No later batch has an on-time row below it, ms; null before a mark."
    )
    lag_ms: Count | None = Field(
        None, description="Event time from the bound to the watermark; null if unknown."
    )
    backlog: Count | None = Field(
        None, description="Rows in the log that are still to be read; null if unknown."
    )
    late: Count = Field(0, description="Late rows that were read.")
    late_by_ms: Count | None = Field(
        None, description="How far the latest of them was below the bound; null if none was."
    )
    late_writers: dict[Name, Count] = Field(
        default_factory=dict,
        max_length=MOST_LATE_WRITERS,
        description="Late rows by writer, of those that wrote most of them.",
    )
    late_output: Count = Field(
        0, description="Rows that operators handed to their `late` output."
    )
    partially_late: Count = Field(
        0, description="Rows that some of their windows were closed to, and others took."
    )
    state_bytes: Count | None = Field(
        None, description="Size of the query's state; null if unknown."
    )


class NotedProgress(GroupProgress):
    """Progress as it was last reported."""

    model_config = ConfigDict(extra="ignore")
    silent_ms: int = Field(
        description="Time since the report, ms; after 5 minutes it is forgotten."
    )


class GroupDetails(GroupInfo):
    """``GET /v1/reader-groups/{scope}/{group}``."""

    progress: NotedProgress | None = Field(
        description="Progress of the query that reads with it; null without a report for 5 minutes."
    )
    readers: list[ReaderInfo] = Field(
        default_factory=list, description="Those of the shared state, in order of name."
    )


class GroupList(Answer):
    """``GET /v1/reader-groups``."""

    groups: list[ListedGroup] = Field(description="In order of name.")
    cursor: str | None = Field(description="Where the next page starts; null on the last.")
    now_ms: int = Field(description="Wall clock of the service, ms.")


class ReaderJoined(Answer):
    """The answer to joining a group."""

    reader: str = Field(description="Name of the reader.")
    epoch: int = Field(description="Epoch of this process; send it with every call.")
    owned: StreamOffsets = Field(
        description="Segments that it owns, taken over from its predecessor."
    )


class ReaderPosition(Request):
    """``POST …/readers/{reader}/position``."""

    epoch: Integer = Field(description="Epoch from joining.")
    position: StreamOffsets = Field(description="Confirmed offsets of owned segments.")


class ReaderBalance(Answer):
    """The answer to a position and a heartbeat."""

    balanced: bool = Field(
        description="Whether the reader owns its share of the segments; otherwise it should read "
        "the shared state, and release or acquire some."
    )


class ReaderOffline(Request):
    """``DELETE …/readers/{reader}``."""

    epoch: Integer = Field(description="Epoch from joining.")
    position: StreamOffsets = Field(
        default_factory=dict,
        description="Where others continue its segments, further back too; omitted: where it confirmed.",
    )


class ReaderHeartbeat(Request):
    """``POST …/readers/{reader}/heartbeat``."""

    epoch: Integer = Field(description="Epoch from joining.")


def by_stream(offsets: groups.Offsets) -> dict[str, dict[int, int]]:
    """Return offsets by stream, as messages have them."""
    streams: dict[str, dict[int, int]] = {}
    for ref in sorted(offsets):
        streams.setdefault(ref.stream, {})[ref.segment] = offsets[ref]
    return streams


def by_segment(offsets: Mapping[str, Position]) -> dict[groups.SegmentRef, int]:
    """Return offsets by segment, as the shared state has them."""
    return {
        groups.SegmentRef(stream, segment): offset
        for stream, position in offsets.items()
        for segment, offset in position.items()
    }
