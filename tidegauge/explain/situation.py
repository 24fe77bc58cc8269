"""The situation of a stream: all that can be the reason why its watermark stands."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidegauge.aggregation.settings import StreamSettings
from tidegauge.marks import Mark
from tidegauge.states import Clock, StandBy, WriterState
from tidegauge.topology import Position

CLOCKS_AGREE_MS = 60_000
"""Closer than this nobody doubts a clock."""
MOST_COUNTED = 1_000
"""Of those whose clocks run out together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterStatus:
    """One writer, as operators see it.

    Attributes
    ----------
    writer, state, incarnation
        Its name.
    ended
        Whether it left because its source has ended.
    time
        Latest noted in this incarnation, ms.
    position
        How far it reported, former incarnations too.
    behind_ms
        Event time to whoever is furthest ahead, or to the watermark if nobody is.
    silent_ms
        Wall clock since it last spoke.
    stand
        Where it stands: its latest time, or what its registration returned, ms.
    stand_by
        Which of the two, ``noted``, perhaps before a restart, or ``registered``; None if it stands nowhere.
    grace
        Whether it may come back once more.
    gone_watermark
        The watermark at which it went out: a time above it gives it grace.
    catch_up_ms
        How long the others would wait for it at its pace, if it is out and approaches.
    silent_for_ms, standing_for_ms
        What its two clocks show, each in its own time; None if it does not run.
    clock
        Which of them is nearer its end.
    expires_in_ms
        Listening time until it is dropped if nothing else happens; None if it is not.
    remaining_ms
        What remains of that clock if it holds and others go on; None while its time stops.
    """

    writer: str
    state: WriterState
    ended: bool
    incarnation: int
    time: int | None
    position: Position
    behind_ms: int | None
    silent_ms: int | None
    stand: int | None
    stand_by: StandBy | None
    grace: bool
    gone_watermark: int | None
    catch_up_ms: int | None
    silent_for_ms: int | None
    standing_for_ms: int | None
    clock: Clock | None
    expires_in_ms: int | None
    remaining_ms: int | None


class OddEvent(NamedTuple):
    """An event that was accepted with a time that is probably wrong."""

    time: int
    writer: str | None
    """None if nobody was named."""
    seen_ms: int
    """Wall clock of the append."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A stream at one moment.

    Attributes
    ----------
    stream
        Its name.
    newest
        Mark.
    stood_ms
        Wall clock since then.
    held_ms
        How long somebody has waited, but for silence; None if nobody waits.
    silent_ms
        How long no writer has reported, once that stops the clocks; None before that.
    patience_ms
        For how long it may stand before it is held.
    settings
        How reports become marks.
    states
        How many writers are in each state.
    reporters
        How many distinct writers ever had a report accepted.
    holders, waiting
        The first few of each; ``holder_count`` and ``waiting_count`` are the whole numbers.
    run_out_with
        How many others there are whose clocks run out with the first holder's, or before; of
        `MOST_COUNTED` in all.
    expired
        Names of the last few that expired, the latest first.
    ended, unended
        How many writers have ended, and names of some that have not, where others have.
    returning
        The first few that are out and on their way back; ``returning_count`` in all.
    stopped_ms
        For how long nobody has gone on, for each clock whose time stops; else None.
    leader
        The writer that is furthest ahead of the watermark.
    lead_ms
        How far it stands ahead of all other live writers, if that is doubtful.
    heard
        The writer that reported last.
    wall_ms
        The server's clock.
    nowhere
        Whether a live writer stands nowhere, so that there is no time to rise to.
    unplaced
        Whether the log is external and no report ever named an offset.
    hot
        Segments whose load a split did not spread.
    odd_event
        The newest one.
    """

    stream: str
    newest: Mark | None
    stood_ms: int | None
    held_ms: int | None
    silent_ms: int | None
    patience_ms: float
    settings: StreamSettings
    states: Mapping[WriterState, int]
    reporters: int
    holders: list[WriterStatus]
    holder_count: int
    waiting: list[str]
    waiting_count: int
    run_out_with: int
    expired: list[str]
    ended: int
    unended: list[str]
    returning: list[WriterStatus]
    returning_count: int
    stopped_ms: Mapping[Clock, int | None]
    leader: WriterStatus | None
    lead_ms: int | None
    heard: WriterStatus | None
    wall_ms: int
    nowhere: bool
    unplaced: bool
    hot: Collection[int] = ()
    odd_event: OddEvent | None = None

    @property
    def next_expiry_ms(self) -> int | None:
        """Listening time until the first clock runs out."""
        left = (
            holder.expires_in_ms for holder in self.holders if holder.expires_in_ms is not None
        )
        return min(left, default=None)

    @property
    def all_others_left(self) -> bool:
        """Whether no writer that is ahead is live, so that no clock may run out."""
        return self.waiting_count > 0 and self.live == self.holder_count

    @property
    def interval_left_ms(self) -> int:
        """Wall clock until a pass may run; one after a restart does not wait so long."""
        interval_ms = self.settings.mark_interval_ms
        return 0 if self.stood_ms is None else max(0, interval_ms - self.stood_ms)

    @property
    def doubtful_leader(self) -> WriterStatus | None:
        """The leader, if its time is ahead of the server's clock, which the times follow."""
        leader = self.leader
        if leader is None or leader.time is None or not self.is_ahead_of_clock(leader.time):
            return None
        return leader

    def is_ahead_of_clock(self, time: int) -> bool:
        """Return whether a time is so far in the future that somebody's clock may be wrong."""
        follows_clock = self.settings.max_future_skew_ms is not None
        return follows_clock and time > self.wall_ms + CLOCKS_AGREE_MS

    @property
    def live(self) -> int:
        """How many writers count for the watermark."""
        return self.states["joining"] + self.states["active"] + self.states["behind"]
