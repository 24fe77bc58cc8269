"""Messages about streams: settings, topology, marks, the tail."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Discriminator, Field, StringConstraints, Tag, model_validator

from tidegauge.explain.states import RANKS, State, Tone
from tidegauge.holds import HoldEnd
from tidegauge.marks import Mark
from tidegauge.scaling import MOST_SEGMENTS
from tidegauge.scaling_policy import Unit
from tidegauge.states import Reason, WriterState
from tidegauge.topology import KeyRange, Segment, Topology
from tidegauge.wire.values import Answer, Between, EventTime, Integer, Request, WirePosition

Milliseconds = Annotated[Integer, Between(0, 10 * 365 * 86_400_000)]
PositiveMilliseconds = Annotated[Integer, Between(1, 10 * 365 * 86_400_000)]
SegmentCount = Annotated[Integer, Between(1, MOST_SEGMENTS)]
KeyHash = Annotated[float, Field(strict=True, ge=0, le=1)]
PerSecond = Annotated[Integer, Between(1, 10**12)]
_Span = Annotated[Integer, Between(2_000, 86_400_000)]  # four samples of 500 ms, or a day


class ScalingPolicy(Request):
    """How the number of segments follows the load: exactly one target is given."""

    events_per_s: PerSecond | None = Field(
        None, description="Target rate of a segment, events a second."
    )
    bytes_per_s: PerSecond | None = Field(
        None, description="Target rate of a segment, bytes a second as they are stored."
    )
    window_ms: _Span = Field(
        120_000, description="Period over which rates are measured, ms of listening time."
    )
    cooldown_ms: _Span = Field(
        600_000, description="How long new segments are not scaled again, ms."
    )
    min_segments: SegmentCount = Field(
        1, description="Neighbours are merged only while more segments than this grow."
    )

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if (self.events_per_s is None) == (self.bytes_per_s is None):
            msg = "give one target, events_per_s or bytes_per_s"
            raise ValueError(msg)
        return self


def _kind_of_scaling(value: object) -> str | None:
    if value == "fixed":
        return "fixed"
    return "policy" if isinstance(value, Mapping | ScalingPolicy) else None


Scaling: TypeAlias = Annotated[
    Annotated[Literal["fixed"], Tag("fixed")] | Annotated[ScalingPolicy, Tag("policy")],
    Discriminator(
        _kind_of_scaling,
        custom_error_type="scaling",
        custom_error_message='should be "fixed" or a policy, such as {"events_per_s": 1000}',
    ),
]


class Retention(Request):
    """How many of a stream's events are kept; a limit that is left out does not apply."""

    age_ms: PositiveMilliseconds | None = Field(
        None, description="Drop events this long after they were appended, ms of wall clock."
    )
    bytes: Annotated[Integer, Between(1)] | None = Field(
        None, description="Drop the oldest events beyond this size, bytes as they are stored."
    )


TableName = Annotated[
    str,
    # No control characters: it is shown on terminals.
    StringConstraints(min_length=1, max_length=1_000, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$"),
]


class SettingsFields(Request):
    """The settings that a stream is created with and that PATCH changes.

    A field left out is unchanged (the default, when the stream is created); null is the
    value null.
    """

    max_segments: SegmentCount | None = Field(
        None,
        description="Embedded log: maximum number of growing segments; null for 64, or for the number "
        "at creation if that is higher. External logs: maximum number of partitions that reports "
        "may name; null for the number at creation.",
    )
    scaling: Scaling | None = Field(
        None,
        description="How the number of segments of the embedded log follows the load: `fixed`, or "
        "a policy with a target for each segment. A segment above twice the target is split; two "
        "neighbours below half of it are merged.",
    )
    aggregation_timeout_ms: PositiveMilliseconds | None = Field(
        60_000,
        description="How long a writer may be silent while others are ahead of it, ms; null: forever. "
        "Time passes only while others report.",
    )
    hold_limit_ms: PositiveMilliseconds | None = Field(
        600_000,
        description="How long a writer may stand still while others are ahead of it, ms; null: "
        "forever. Time passes only while others progress.",
    )
    min_writers: Annotated[Integer, Between(0, 10_000_000)] = Field(
        0, description="Make no mark before this many distinct writers have reported."
    )
    mark_interval_ms: Milliseconds = Field(
        100,
        description="Minimum wall-clock time between two passes that make marks, ms; 0: a pass after every change.",
    )
    mark_resolution_ms: Milliseconds = Field(
        1_000, description="Minimum event time between two marks, ms; 0: no minimum."
    )
    mark_retention_ms: PositiveMilliseconds | None = Field(
        None, description="How long old marks are kept, ms; null: as long as the events."
    )
    retention: Retention | None = Field(
        None,
        description="Embedded log: `age_ms` and `bytes`. The oldest events beyond either limit are "
        "dropped, unless a reader group still needs them; null: all events are kept.",
    )
    writer_retention_ms: Milliseconds | None = Field(
        7 * 86_400_000,
        description="How long a writer that left or expired is remembered, ms; null: forever.",
    )
    max_future_skew_ms: Milliseconds | None = Field(
        3_600_000,
        description="How far a noted time may be ahead of the server's clock, ms. Choose how "
        "far your writers' clocks may be wrong, 60000 with NTP; null for streams with logical time.",
    )
    table: TableName | None = Field(
        None,
        description="External log of one partition: the lakehouse table whose versions are the "
        "offsets, by its address or name, so that versions are shown; null: it is no table.",
    )


class CreateStream(SettingsFields):
    """``PUT {stream}``."""

    segments: SegmentCount = Field(
        4,
        description="Number of segments of the embedded log, or of partitions of the external one.",
    )
    log: Literal["embedded", "external"] = Field(
        "embedded",
        description="Where the events are stored: in the service, or in an external log (Kafka, files, a database).",
    )


class ChangeStream(SettingsFields):
    """``PATCH {stream}``; the fixed settings are taken only to refuse them clearly."""

    segments: Any = Field(None, description="Fixed: 409 `immutable_setting`.")
    log: Any = Field(None, description="Fixed: 409 `immutable_setting`.")


class StreamFacts(Answer):
    """What every answer about a stream carries."""

    stream_id: str = Field(description="Differs once the stream is deleted and created again.")
    watermark: int | None = Field(description="`lower` of the newest mark, ms.")
    final: bool = Field(False, description="Whether the stream is sealed.")


class SegmentInfo(Answer):
    """One segment of a topology."""

    number: int = Field(description="Unique in the stream.")
    low: float | None = Field(description="Start of its key range; null on external logs.")
    high: float | None = Field(description="End (exclusive) of its key range.")
    predecessors: list[int] = Field(description="The segments that it continues.")
    sealed_length: int | None = Field(description="Events it holds forever; null: it grows.")
    opened_ms: int | None = Field(
        None, description="Wall clock at which it was made, ms; null if that was not kept."
    )
    sealed_ms: int | None = Field(
        None,
        description="Wall clock at which it was sealed, ms; null while it grows, or if that was not "
        "kept.",
    )

    @classmethod
    def of(cls, segment: Segment) -> "SegmentInfo":
        """Describe a segment; validating it would take microseconds, and there may be thousands."""
        low, high = segment.key_range or (None, None)
        return cls.model_construct(
            number=segment.number,
            low=low,
            high=high,
            predecessors=list(segment.predecessors),
            sealed_length=segment.sealed_length,
            opened_ms=segment.opened_ms,
            sealed_ms=segment.sealed_ms,
        )

    def to_segment(self) -> Segment:
        """Read the description back."""
        owned = None if self.low is None or self.high is None else KeyRange(self.low, self.high)
        return Segment(
            self.number,
            owned,
            tuple(self.predecessors),
            self.sealed_length,
            self.opened_ms,
            self.sealed_ms,
        )


class TopologyInfo(Answer):
    """The DAG of a stream's segments."""

    revision: int = Field(description="Rises by one with every change.")
    segments: list[SegmentInfo] = Field(description="All of them, in order of number.")

    def to_topology(self) -> Topology:
        """Read the description back."""
        return Topology(
            (segment.to_segment() for segment in self.segments), revision=self.revision
        )


class TopologyDescriptions:
    """Describes a stream's topology again and again; only what changed since is described anew."""

    def __init__(self) -> None:
        self._described: dict[int, tuple[Segment, SegmentInfo]] = {}
        self._newest: tuple[Topology, TopologyInfo] | None = None

    def of(self, topology: Topology) -> TopologyInfo:
        """Describe a topology."""
        if self._newest is None or self._newest[0] is not topology:
            former, self._described = self._described, {}
            for number in sorted(topology.segments):
                segment, known = topology[number], former.get(number)
                # The same object: equal ones may have begun or ended at another time.
                if known is None or known[0] is not segment:
                    known = segment, SegmentInfo.of(segment)
                self._described[number] = known
            segments = [info for _, info in self._described.values()]
            made = TopologyInfo.model_construct(revision=topology.revision, segments=segments)
            self._newest = topology, made
        return self._newest[1]


class MarkInfo(Answer):
    """A mark: everything older than `lower` lies before `cut`."""

    revision: int = Field(description="1, 2, 3 … in the stream.")
    lower: int = Field(description="The watermark, ms of event time.")
    upper: int = Field(description="How far the writers behind the cut had noted time, ms.")
    cut: WirePosition = Field(description="A stream cut: segment to offset.")
    marked_ms: int | None = Field(None, description="Wall clock at which it was made, ms.")
    final: bool = Field(description="Whether the stream is sealed.")

    @classmethod
    def of(cls, mark: Mark) -> "MarkInfo":
        """Describe a mark; validating its cut would take a microsecond an entry."""
        return cls.model_construct(
            revision=mark.revision,
            lower=mark.lower,
            upper=mark.upper,
            cut=dict(mark.cut),
            marked_ms=mark.marked_ms,
            final=mark.final,
        )

    def to_mark(self) -> Mark:
        """Read the description back."""
        return Mark(self.revision, self.lower, self.upper, self.cut, self.marked_ms)


class StreamConfig(Answer):
    """What a stream was created with and is set to."""

    segments: int = Field(description="How many it was created with.")
    log: Literal["embedded", "external"] = Field(description="Where the events are stored.")
    max_segments: int | None = Field(description="See `PUT`.")
    scaling: Scaling = Field(description="See `PUT`.")
    aggregation_timeout_ms: int | None = Field(description="See `PUT`.")
    hold_limit_ms: int | None = Field(600_000, description="See `PUT`.")
    min_writers: int = Field(description="See `PUT`.")
    mark_interval_ms: int = Field(description="See `PUT`.")
    mark_resolution_ms: int = Field(description="See `PUT`.")
    mark_retention_ms: int | None = Field(description="See `PUT`.")
    retention: Retention | None = Field(None, description="See `PUT`.")
    writer_retention_ms: int | None = Field(description="See `PUT`.")
    max_future_skew_ms: int | None = Field(description="See `PUT`.")
    table: str | None = Field(None, description="See `PUT`.")

    def version_before(self, cut: Mapping[int, int] | None) -> int | None:
        """Return the newest version of a table before a cut; None if it is none, or is empty there."""
        offset = 0 if self.table is None or cut is None else cut.get(0, 0)
        return offset - 1 if offset else None

    @property
    def drops_writers(self) -> bool:
        """Whether a writer that holds is ever dropped."""
        return self.aggregation_timeout_ms is not None or self.hold_limit_ms is not None


class SegmentLoad(Answer):
    """What the scaling policy sees of a segment."""

    number: int = Field(description="Of a growing segment.")
    per_s: float | None = Field(
        description="Events or bytes a second over the window; null until it was seen for one."
    )
    waits: str | None = Field(
        description="What it waits for before it is split or merged; null if neither is wanted."
    )


class ScalingAction(Answer):
    """A scaling, by the policy or by hand."""

    created_ms: int = Field(description="Wall clock, ms.")
    sealed: list[int] = Field(description="The segments that were sealed.")
    added: list[int] = Field(description="The segments that continue them.")
    reason: str = Field(description="Why, with the rates and the target.")


class ScalingInfo(Answer):
    """What the scaling policy of a stream sees and did, as of its last sample."""

    unit: Unit = Field(description="What is counted.")
    segments: list[SegmentLoad] = Field(description="Those that grow, in order of number.")
    hot: list[int] = Field(
        description="Segments that are not split for now: a split left most of the load in one "
        "part, so that one key is hot."
    )
    actions: list[ScalingAction] = Field(description="The newest scalings, oldest first.")


HELD = (
    "Time that writers have waited for others since the newest mark, ms; of a gap between reports "
    "5 minutes count. Null while none waits."
)
NOT_ENDED = (
    "Where a writer's source has ended: up to 10 writers that have not, so that the stream is not "
    "sealed; empty once it is, and while fewer than `min_writers` are known."
)
SILENT = (
    "Time since a writer last reported, ms, once that stops the clocks of all, where some wait after "
    "5 minutes; null before that."
)


class BriefExplanation(Answer):
    """Why the watermark of a listed stream is where it is, in short."""

    reason: Reason = Field(description="Why, in one word.")
    stood_ms: int | None = Field(
        description="Time since the newest mark, wall clock, ms; null before the first."
    )
    held_ms: int | None = Field(None, description=HELD)
    silent_ms: int | None = Field(None, description=SILENT)
    states: dict[WriterState, int] = Field(description="Number of writers in each state.")
    holder: str | None = Field(
        description="The writer that holds the watermark, or the first of those that do."
    )
    holder_count: int = Field(description="Number of writers that hold it.")
    waiting_count: int = Field(description="Number of writers that are ahead and wait.")
    next_expiry_ms: int | None = Field(
        description="When the first clock runs out, ms from now."
    )
    hint: str | None = Field(
        description="What looks wrong: times in seconds, or a hot key, for example."
    )


class JudgedState(Answer):
    """The state of a stream, in the words that all pages and commands share."""

    state: State = Field(description="In one word.")
    label: str = Field(description="What people read.")
    tone: Tone = Field(description="How bad it is.")
    since_ms: int | None = Field(
        description="Wall clock since when it stands, ms; null where that does not matter."
    )
    marks_per_s: float = Field(description="Marks a second lately; 0 while it stands.")

    @property
    def rank(self) -> tuple[int, int]:
        """Its place among others: trouble first, then those that stand for the longest."""
        return RANKS[self.state], 2**63 if self.since_ms is None else self.since_ms


class _StreamEntry(StreamFacts):
    stream: str = Field(description="scope/stream.")
    created_ms: int = Field(description="Wall clock of its creation, ms.")
    revision: int = Field(description="Of the newest mark; 0 before the first.")
    marked_ms: int | None = Field(
        None, description="Wall clock of the newest mark, ms; null before the first."
    )
    version: int | None = Field(
        None,
        description="Of a table: the version at which it is complete up to the watermark; null of "
        "other streams, and before the first mark.",
    )
    explanation: BriefExplanation | None = Field(
        None,
        description="In lists, with `explain`; null without.",
    )
    judged: JudgedState | None = Field(
        None, description="The state, in lists with `explain`; null without."
    )


class StreamBrief(_StreamEntry):
    """A stream in a list with `brief`."""

    log: Literal["embedded", "external"] = Field(description="Where the events are stored.")
    table: str | None = Field(None, description="The table whose versions are the offsets.")
    follows_clock: bool = Field(
        description="Whether times are ms of wall clock: `max_future_skew_ms` is set."
    )
    drops_writers: bool = Field(
        description="Whether a writer that holds is ever dropped: `aggregation_timeout_ms` or "
        "`hold_limit_ms` is set."
    )
    segments: int = Field(description="How many there are, sealed ones too.")
    events: int | None = Field(
        description="How many the log holds, without those that were truncated; null on external "
        "logs."
    )


class StreamInfo(_StreamEntry):
    """``GET {stream}``."""

    config: StreamConfig = Field(description="Its settings.")
    topology: TopologyInfo = Field(description="Its segments.")
    tail: WirePosition | None = Field(
        description="Next offset of each growing or sealed segment; null on external logs."
    )
    first_cut: WirePosition | None = Field(
        description="The stream cut at which the events begin; null on external logs."
    )
    scaling: ScalingInfo | None = Field(
        None, description="What the scaling policy sees and did; null if the number is fixed."
    )


class StreamList(Answer):
    """``GET /v1/streams``."""

    streams: list[StreamInfo] = Field(description="In order of name.")
    cursor: str | None = Field(description="Where the next page starts; null on the last.")
    now_ms: int = Field(description="Wall clock of the service, ms.")


class BriefStreamList(Answer):
    """``GET /v1/streams?brief=true``."""

    streams: list[StreamBrief] = Field(description="In order of name.")
    cursor: str | None = Field(description="Where the next page starts; null on the last.")
    now_ms: int = Field(description="Wall clock of the service, ms.")


class JudgedStreamList(BriefStreamList):
    """``GET /v1/streams?order=trouble``."""

    streams: list[StreamBrief] = Field(
        description="Trouble first; among equals, those that have stood longest."
    )
    counts: dict[State, int] = Field(
        description="Number of streams in each state, whatever `state` asks for."
    )
    now_ms: int = Field(description="The same as `judged_ms`: all of the page is of then.")
    judged_ms: int = Field(description="Wall clock at which the states were decided, ms.")
    more: bool = Field(description="Whether there are more than `limit`.")


class MarkHistory(StreamFacts):
    """``GET {stream}/marks/history``: columns with one entry for each step that has a mark, oldest first."""

    marked_ms: list[int] = Field(description="Wall clock of the last mark of the step, ms.")
    revision: list[int] = Field(description="Its revision.")
    lower: list[int] = Field(description="The watermark from then on, ms.")
    upper: list[int] = Field(description="How far writers had noted time, ms.")
    age_ms: list[int | None] = Field(
        description="How old the watermark became at most; null where a mark before was thinned "
        "out, and where times do not follow the clock."
    )
    stood_ms: list[int | None] = Field(
        description="How long it stood at most; null where a mark before was thinned out."
    )
    sealed_ms: int | None = Field(
        description="Wall clock of the final mark, ms; null before it."
    )
    now_ms: int = Field(description="Wall clock of the service, ms.")


class ScaleStream(Request):
    """``POST {stream}/scale``."""

    seal: list[Integer] = Field(min_length=1, description="Growing segments, to be sealed.")
    ranges: list[tuple[KeyHash, KeyHash]] = Field(
        min_length=1,
        max_length=MOST_SEGMENTS,
        description="Start and end (exclusive) of the key range of each segment that continues "
        "them: together exactly what those own.",
    )
    topology_revision: Integer | None = Field(
        None, description="409 `topology_changed` unless the topology is at this revision."
    )


class ScaledStream(StreamFacts):
    """The answer to a scaling."""

    segments: list[SegmentInfo] = Field(
        description="Those that continue what was sealed, in the order of the ranges."
    )
    topology: TopologyInfo = Field(description="All segments.")


class TruncateStream(Request):
    """``POST {stream}/truncate``: a cut or a time."""

    cut: WirePosition | None = Field(
        None,
        description="A stream cut, or a position that means one: what lies before it goes. "
        "It never goes back.",
    )
    time: EventTime | None = Field(
        None, description="Event time, ms: no event at or above it goes, late ones excepted."
    )
    force: bool = Field(
        False, strict=True, description="Drop also what reader groups still need."
    )


class TruncatedStream(StreamFacts):
    """The answer to a truncation."""

    first_cut: WirePosition = Field(description="Where the events begin now.")


class SealStream(Request):
    """``POST {stream}/seal``."""

    position: WirePosition | None = Field(
        None, description="External logs: the end of each partition, which must be given."
    )


class SealedStream(StreamFacts):
    """The answer to a seal."""

    watermark: int = Field(description="The end of time.")
    mark: MarkInfo = Field(description="The final mark.")


class MarkList(StreamFacts):
    """``GET {stream}/marks``."""

    marks: list[MarkInfo] = Field(description="Oldest first; empty if none came in time.")
    now_ms: int = Field(description="Wall clock of the service, ms.")


class Tail(StreamFacts):
    """``GET {stream}/tail``: what readers and Spark wait on."""

    tail: WirePosition = Field(description="Next offset of each segment.")
    first_cut: WirePosition = Field(
        description="The stream cut at which the events begin: a segment that it names at its "
        "offset, one before those is truncated as a whole."
    )
    topology_revision: int = Field(description="Rises when segments are added.")
    revision: int = Field(description="Of the newest mark; 0 before the first.")


class MarksAtTime(StreamFacts):
    """``GET {stream}/marks/at?time=``: where to start and where to stop for a time."""

    time: EventTime = Field(description="The time asked for, rounded down to ms.")
    start: WirePosition | None = Field(
        description="Read from here to miss no event at or above the time; null: from the start."
    )
    exact: bool = Field(
        description="Whether `start` is the first place at which event time reaches the time, "
        "or only one before it (external logs)."
    )
    stop: MarkInfo | None = Field(
        description="The first mark with `lower` ≥ time, which is rounded up to ms: read up to "
        "its cut and every event below the time is read; null while there is none."
    )
    completed_ms: int | None = Field(
        None,
        description="Wall clock at which the watermark reached the time, ms; null while it has not. "
        "What an expired writer still brings from before is late.",
    )
    completed_exact: bool = Field(
        False, description="Whether it was just then: marks are thinned out after a while."
    )


class HoldInfo(Answer):
    """A span in which one writer held the watermark throughout, while others waited."""

    since_ms: int = Field(description="Wall clock at which it began, ms.")
    until_ms: int = Field(description="Wall clock at which it ended; now if it has not ended.")
    began_ms: int = Field(
        description="Wall clock at which the watermark came to be held, by any writer."
    )
    held_ms: int = Field(
        description="How much of it counts, ms: of a gap between reports at most 5 minutes."
    )
    watermark: int | None = Field(
        description="The watermark that stood, ms; null before the first mark."
    )
    reached: int | None = Field(
        description="The watermark that ended it; null if the watermark did not advance."
    )
    writer: str = Field(description="A writer that held it from the beginning to the end.")
    others: int = Field(description="How many more held it at a moment in its second half.")
    silence_ms: int = Field(description="The longest time in it in which no writer reported.")
    reported: bool = Field(description="Whether the writer reported in it, before its end.")
    unheard_ms: int = Field(
        description="Wall clock in it in which the service took no reports, or by which its clock "
        "was set forward, ms; 0 below a second."
    )
    end: HoldEnd | None = Field(
        description="What the writer did: `noted` a later time, `left`, or expired by `silence`, "
        "`standing_still` or an `operator`; of the stream, `sealed` and `quiet` (nobody waits any "
        "more); null if it goes on."
    )


class HoldList(StreamFacts):
    """``GET {stream}/holds``."""

    holds: list[HoldInfo] = Field(description="The newest first.")
    cursor: str | None = Field(description="For the next page; null on the last.")
    now_ms: int = Field(description="Wall clock of the service, ms.")


class HeldStream(Answer):
    """How much the watermark of a stream was held."""

    stream: str = Field(description="scope/stream.")
    held_ms: int = Field(
        description="In all, ms: of a gap between reports at most 5 minutes count."
    )
    spans: int = Field(description="How many there are, the one that goes on among them.")
    longest: HoldInfo = Field(description="The one of which the most counts.")


class HeldStreamList(Answer):
    """``GET /v1/holds``."""

    streams: list[HeldStream] = Field(description="The most held first.")
    more: bool = Field(description="Whether there are others.")
    now_ms: int = Field(description="Wall clock of the service, ms.")


class MarksAtPosition(StreamFacts):
    """``GET {stream}/marks/at?position=``: the watermark in effect at a position."""

    lower: int | None = Field(description="Lower end of the time window there, ms.")
    upper: int | None = Field(description="Upper end of the time window there, ms.")
    passed: MarkInfo | None = Field(description="The newest mark whose cut it covers.")
