"""Messages of writers: registering, noting time, leaving, and why the watermark stands."""

from typing import Annotated, Self
from uuid import uuid4

from pydantic import Field, StringConstraints

from tidegauge.explain.first_steps import addressed
from tidegauge.explain.sentences import in_full
from tidegauge.states import Clock, Reason, StandBy, WriterState
from tidegauge.wire.streams import HELD, NOT_ENDED, SILENT, JudgedState, MarkInfo, StreamFacts
from tidegauge.wire.values import Answer, EventTime, Incarnation, Name, Request, WirePosition

_OF_A_REPORT = "Of a report, ms: nothing that the writer will write is older."


class RegisterWriter(Request):
    """``POST …/writers/{writer}/register``."""

    time: EventTime | None = Field(None, description=_OF_A_REPORT)
    registration_id: Annotated[str, StringConstraints(min_length=1, max_length=64)] | None = (
        Field(
            None,
            description="Id of this registration, which the client chooses: a new one for each start of "
            "its process, the same for each retry. A retry changes nothing, and returns the "
            "incarnation of the first call. Without an id, each call makes a new incarnation.",
        )
    )

    @classmethod
    def new(cls, time: int | None = None) -> Self:
        """Make a registration with an id of its own: repeated, it is the same message."""
        return cls(time=time, registration_id=uuid4().hex)


class WriterReport(Request):
    """A report, as all calls take it that carry one; not all of them need a time."""

    time: EventTime | None = Field(None, description=_OF_A_REPORT)
    position: WirePosition | None = Field(
        None,
        description="How far the writer has written; only what changed need be named. Left out "
        "on embedded streams: the current tails, always sound.",
    )
    incarnation: Incarnation | None = Field(
        None,
        description="Incarnation from the registration; omitted by writers that never registered.",
    )


class LeaveStream(WriterReport):
    """``POST …/writers/{writer}/leave``: it will write no more."""

    ended: bool = Field(
        False,
        description="Its source has ended. The stream is sealed once all writers that it knows have "
        "ended, at least `min_writers` of them.",
    )


class NoteTime(WriterReport):
    """``POST …/writers/{writer}/note-time``."""

    time: EventTime = Field(
        description="Every event that the writer writes after the position is at or above it."
    )


class TimeNoted(StreamFacts):
    """The answer to an accepted report."""

    state: WriterState = Field(description="State of the writer.")
    hint: str | None = Field(None, description="What looks wrong with an accepted report.")


class WriterRegistered(TimeNoted):
    """The answer to a registration: with a first time, that of a report, and what it starts with."""

    incarnation: int = Field(
        description="Incarnation of this process; send it with every report."
    )
    time: int | None = Field(
        description="Where the writer stands, ms: events at or above it are not late; null before the "
        "first mark, and for a writer that stays out."
    )
    beat_ms: int | None = Field(
        description="How often to repeat the last time to avoid being dropped for silence, ms; null: "
        "writers are not dropped for silence."
    )
    position: WirePosition = Field(
        description="Position of former incarnations; it is joined into every report of this one."
    )


class Report(NoteTime):
    """One entry of ``POST /v1/note-times``."""

    stream: str = Field(description="scope/stream.")
    writer: Name = Field(description="The writer's stable name.")
    stream_id: str | None = Field(None, description="409 `stream_replaced` if it is another.")


class NoteTimes(Request):
    """``POST /v1/note-times``: many reports, each on its own, in order."""

    reports: list[Report] = Field(max_length=10_000, description="The reports, in order.")


class TimesNoted(Answer):
    """The answer to ``POST /v1/note-times``."""

    results: list[dict[str, object]] = Field(
        description="One for each report, in order: `status` 200 with the fields of a noted "
        "time, or a problem document, also for a report that cannot be read."
    )


class WriterInfo(Answer):
    """One writer of a stream."""

    writer: str = Field(description="Name of the writer.")
    state: WriterState = Field(description="Live are `joining`, `active` and `behind`.")
    ended: bool = Field(description="Whether it left because its source has ended.")
    incarnation: int = Field(description="Newest incarnation; 0 if it never registered.")
    time: int | None = Field(description="Latest time noted in this incarnation, ms.")
    position: WirePosition | None = Field(
        description="Position that it reported, with former incarnations; null in a list without `positions`."
    )
    behind_ms: int | None = Field(
        description="Event time to the writer furthest ahead, or to the watermark, ms."
    )
    silent_ms: int | None = Field(description="Time since it last reported, wall clock, ms.")
    stand: int | None = Field(
        description="Where it stands, ms: its latest time, or the `time` of its registration."
    )
    stand_by: StandBy | None = Field(
        description="`noted`, perhaps before a restart, or `registered`, as its registration returned it; null without a stand."
    )
    silent_for_ms: int | None = Field(
        description="Its silence clock, ms, which runs while others report and ends at "
        "`aggregation_timeout_ms`; null if it does not run."
    )
    standing_for_ms: int | None = Field(
        description="Its standstill clock, ms, which runs while others progress and ends at "
        "`hold_limit_ms`; null if it does not run."
    )
    clock: Clock | None = Field(
        description="The clock closer to running out; for a writer that reports, its standstill clock."
    )
    expires_in_ms: int | None = Field(
        description="When its first clock runs out, ms from now; null if that needs reports of "
        "others."
    )
    remaining_ms: int | None = Field(
        None,
        description="Of a writer that holds the watermark: when `clock` ends while others go on, ms "
        "from now; null while they do not.",
    )
    grace: bool = Field(
        description="Whether it is admitted at once when it registers, once after it was dropped."
    )
    catch_up_ms: int | None = Field(
        description="How long others would wait for it at its pace, ms, while it is out and "
        "returning: it is admitted once that is at most the smaller of the two settings."
    )


class WriterDescription(WriterInfo, StreamFacts):
    """``GET {stream}/writers/{writer}``."""


class WriterAnswer(WriterInfo, TimeNoted):
    """The answer to leave and expire: that of a report, and what became of the writer."""

    not_ended: list[str] = Field([], description=NOT_ENDED)


class WriterList(StreamFacts):
    """``GET {stream}/writers``."""

    writers: list[WriterInfo] = Field(
        description="Writers in order of name, or the slowest first."
    )
    cursor: str | None = Field(
        description="Where the next page starts; null on the last, and of the slowest."
    )
    now_ms: int = Field(description="Wall clock of the service, ms.")


class ExplanationInfo(Answer):
    """Why the watermark is where it is."""

    reason: Reason = Field(description="Why, in one word.")
    sentence: str = Field(
        description="Why, in a sentence for people: who holds it, since when, for how much longer, and who waits."
    )
    cure: str | None = Field(
        None,
        description="What to do, if there is anything; in lower case, without a full stop.",
    )
    command: str | None = Field(
        None, description="The command line that does it, after the words of the cure."
    )
    stood_ms: int | None = Field(
        None, description="Time since the newest mark, wall clock, ms; null before the first."
    )
    held_ms: int | None = Field(None, description=HELD)
    silent_ms: int | None = Field(None, description=SILENT)
    states: dict[WriterState, int] = Field(
        default_factory=dict, description="Number of writers in each state."
    )
    holders: list[WriterInfo] = Field(description="Up to 10 writers that hold it.")
    holder_count: int = Field(description="Number of writers that hold it.")
    waiting: list[str] = Field(description="Up to 10 writers that are ahead and wait.")
    waiting_count: int = Field(description="Number of writers that wait.")
    returning: list[WriterInfo] = Field(
        default_factory=list,
        description="Up to 10 writers that are out and returning.",
    )
    returning_count: int = Field(0, description="Number of writers that are returning.")
    next_expiry_ms: int | None = Field(
        description="When the first clock runs out, ms from now."
    )
    hint: str | None = Field(
        None,
        description="What looks wrong: times in seconds, or a hot key, for example. The sentence "
        "begins with it.",
    )

    @property
    def in_full(self) -> str:
        """The sentence, with what to do."""
        return in_full(self.sentence, self.cure, self.command)


class Watermark(StreamFacts):
    """``GET {stream}/watermark``."""

    stream: str = Field(description="scope/stream.")
    mark: MarkInfo | None = Field(description="The newest mark.")
    judged: JudgedState | None = Field(None, description="The state of the stream.")
    explanation: ExplanationInfo = Field(description="Why it is where it is.")

    def addressed(self, url: str) -> Self:
        """Return it with a command that names the service that was asked."""
        explanation = self.explanation
        command = explanation.command and addressed(explanation.command, url)
        explained = explanation.model_copy(update={"command": command})
        return self.model_copy(update={"explanation": explained})
