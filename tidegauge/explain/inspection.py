"""Inspection: what operators ask about the writers of a stream, answered from memory."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain, islice

from tidegauge.aggregation.clocks import COUNTED_GAP_MS
from tidegauge.aggregation.progress import Progress
from tidegauge.aggregation.readings import Readings
from tidegauge.aggregation.roster import Roster
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now, Writer
from tidegauge.event_time import END_OF_TIME
from tidegauge.explain.explanation import Explanation, explain
from tidegauge.explain.situation import (
    CLOCKS_AGREE_MS,
    MOST_COUNTED,
    OddEvent,
    Situation,
    WriterStatus,
)
from tidegauge.explain.slowest import Slowest, order
from tidegauge.lattice import DownSet
from tidegauge.marks import Mark
from tidegauge.states import StandBy, WriterState
from tidegauge.topology import Topology

_SHOWN = 10
_DOUBTFUL_LEAD = 10
"""A lead is doubtful beyond this fraction of ``max_future_skew_ms``."""
_LIVE: tuple[WriterState, ...] = ("joining", "active", "behind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """A stream as of one moment.

    Attributes
    ----------
    now
        The moment, on both clocks.
    stream, settings, topology
        What it is.
    newest
        Its newest mark.
    reach
        What the next cut is made of.
    roster, progress
        Its writers, and where they stand.
    readings
        What their clocks show.
    slow
        Which of its writers stand lowest.
    patience_ms
        For how long it may stand before it is held.
    """

    now: Now
    stream: str
    settings: StreamSettings
    topology: Topology
    newest: Mark | None
    reach: DownSet
    roster: Roster
    progress: Progress
    readings: Readings
    slow: Slowest
    patience_ms: float

    def status(self, writer: str) -> WriterStatus:
        """Describe a writer; raises `UnknownWriterError`."""
        return self._status(self.roster.get(writer))

    def statuses(
        self, *, after: str = "", prefix: str = "", states: Collection[WriterState] = ()
    ) -> Iterator[WriterStatus]:
        """Describe all writers, or those in some states, after a name, in order of name.

        ``prefix`` is how the names of those begin that are wanted.
        """
        for writer in self.roster.after(after, prefix):
            if not states or self._state(writer) in states:
                yield self._status(writer)

    def slowest(
        self, count: int, *, prefix: str = "", states: Collection[WriterState] = ()
    ) -> list[WriterStatus]:
        """Describe the live writers that stand lowest, or those in some states, lowest first.

        Those that stand nowhere come before all others.
        """
        if prefix or states:
            wanted = states or _LIVE
            some = (
                writer
                for writer in self.roster.after("", prefix)
                if self._state(writer) in wanted
            )
            chosen = nsmallest(count, some, key=order)
        else:
            chosen = self.slow.first(count, self.progress, self.now)
        return [self._status(writer) for writer in chosen]

    def count_states(self) -> Counter[WriterState]:
        """Count the writers in each state; the cost does not grow with the writers."""
        progress, presences = self.progress, self.roster.presences
        joining = len(progress.joining)
        behind = len(progress.behind) if progress.ahead else 0
        return Counter(
            {
                "joining": joining,
                "active": presences["live"] - joining - behind,
                "behind": behind,
                "expired": presences["expired"],
                "left": presences["left"] + presences["ended"],
            }
        )

    @property
    def silent_ms(self) -> int | None:
        """Return how long no writer has reported, once that stops the clocks; None before that.

        Where somebody waits, 5 minutes come first, which count as held. None, too, if no writer is
        live, or one that is ahead has left: a dead writer that it waits for needs attention, since
        nobody drops it.
        """
        is_final = self.newest is not None and self.newest.final
        if not self.roster.presences["live"] or self._has_left or is_final:
            return None
        silent_ms = self.readings.silent_ms()
        counts = self._waits and silent_ms is not None and silent_ms < COUNTED_GAP_MS
        return None if counts else silent_ms

    @property
    def held_ms(self) -> int | None:
        """Return how long the watermark has been held; of a gap between reports 5 minutes count.

        All of it counts if one that is ahead has left. None if nobody waits, or while all are silent.
        """
        if self.silent_ms is not None or not self._waits:
            return None
        return self.readings.held_ms(whole=self._has_left)

    @property
    def _waits(self) -> bool:
        return bool(self.progress.ahead and self.progress.holders)

    @property
    def _has_left(self) -> bool:
        """Whether one that is ahead has left."""
        live, progress = self.roster.presences["live"], self.progress
        return len(progress.ahead) > live - len(progress.holders)

    def explain(
        self, *, hot: Collection[int] = (), odd_event: OddEvent | None = None
    ) -> Explanation:
        """Return why the watermark is where it is; the cost does not grow with the writers.

        ``hot`` and ``odd_event`` are as in `Situation`.
        """
        return explain(self.situation(hot=hot, odd_event=odd_event))

    def situation(
        self,
        *,
        hot: Collection[int] = (),
        odd_event: OddEvent | None = None,
        in_short: bool = False,
    ) -> Situation:
        """Gather all that may be the reason; in short, without those that only a sentence names."""
        shown = 1 if in_short else _SHOWN
        progress, leader = self.progress, self.progress.leader
        heard = None if in_short else self.roster.last_heard
        holders = self._first_holders(shown)
        counted = holders[:1] if not in_short else []
        ended = self.roster.presences["ended"]
        return Situation(
            stream=self.stream,
            newest=self.newest,
            stood_ms=self._stood_ms,
            held_ms=self.held_ms,
            silent_ms=self.silent_ms,
            patience_ms=self.patience_ms,
            settings=self.settings,
            states=self.count_states(),
            reporters=self.roster.reporters,
            holders=[self._status(writer) for writer in holders],
            holder_count=len(progress.holders),
            waiting=[writer.name for writer in islice(progress.ahead, shown)],
            waiting_count=len(progress.ahead),
            run_out_with=sum(
                self.readings.run_out_with(writer, MOST_COUNTED) for writer in counted
            ),
            expired=list(islice(reversed(self.roster.expired), shown)),
            ended=ended,
            unended=list(islice(self.roster.unended(), 0 if in_short or not ended else _SHOWN)),
            returning=[self._status(writer) for writer in islice(progress.returning, shown)],
            returning_count=len(progress.returning),
            stopped_ms=self.readings.stopped_ms(),
            leader=None if leader is None else self._status(leader),
            lead_ms=self._doubtful_lead_ms(),
            heard=None if heard is None else self._status(heard),
            wall_ms=self.now.wall_ms,
            nowhere=any(writer.stand.at is None for writer in progress.joining),
            unplaced=self._is_unplaced(),
            hot=hot,
            odd_event=odd_event,
        )

    def _first_holders(self, shown: int) -> list[Writer]:
        """Choose the writers to show: those dropped first, all that have not reported, then others."""
        progress = self.progress
        some = (
            progress.joining,
            self.readings.clocks.firsts(_SHOWN),
            progress.behind,
            progress.holders,
        )
        chosen = chain.from_iterable(islice(writers, 2 * _SHOWN) for writers in some)
        holders = [writer for writer in chosen if writer.stand.holds]
        first = sorted(holders, key=self._dropped_in)[:1]
        return list(islice(dict.fromkeys(first + holders), shown))

    def _dropped_in(self, writer: Writer) -> tuple[bool, int, float]:
        """Return the order of being dropped: the lowest first, of equals the one with least time."""
        stand = writer.stand.at
        return stand is not None, stand or 0, self.readings.left_ms(writer)

    def _doubtful_lead_ms(self) -> int | None:
        """Return how far the leader stands ahead of all other live writers, if that is doubtful.

        Of two writers either may be wrong. More than `MOST_COUNTED` are not compared.
        """
        progress, skew_ms = self.progress, self.settings.max_future_skew_ms
        leader, ahead, behind = progress.leader, progress.ahead, progress.behind
        if leader is None or leader.stand.at is None or not leader.life.live or skew_ms is None:
            return None
        reached = [self.newest.lower] if self.newest is not None and behind else []
        near = leader.stand.at - max(skew_ms // _DOUBTFUL_LEAD, CLOCKS_AGREE_MS)
        if (reached and reached[0] >= near) or len(ahead) > MOST_COUNTED:
            return None
        others = [
            writer.stand.at for writer in ahead if writer.life.live and writer is not leader
        ]
        reached += [stand for stand in others if stand is not None]
        if len(others) + len(behind) < 2 or max(reached) >= near:
            return None
        return leader.stand.at - max(reached)

    def _is_unplaced(self) -> bool:
        external = all(segment.key_range is None for segment in self.topology.segments.values())
        return external and self.newest is not None and not any(self.reach.values())

    def _state(self, writer: Writer) -> WriterState:
        return writer.state(somebody_waits=bool(self.progress.ahead))

    def _status(self, writer: Writer) -> WriterStatus:
        noted, life, shown = writer.noted, writer.life, self.readings.shown(writer)
        nearer = self.readings.nearer(writer)
        return WriterStatus(
            writer=writer.name,
            state=self._state(writer),
            ended=life.presence == "ended",
            incarnation=life.incarnation,
            time=noted.time,
            stand=writer.stand.at,
            stand_by=self._stands_by(writer),
            grace=life.grace,
            gone_watermark=life.gone_watermark,
            catch_up_ms=life.catch_up_ms,
            position=noted.whole_position,
            behind_ms=self._behind(writer),
            silent_ms=self._since(noted.heard_ms),
            silent_for_ms=shown["silence"],
            standing_for_ms=shown["standing_still"],
            clock=None if nearer is None else nearer.kind,
            expires_in_ms=self._expires_in(writer),
            remaining_ms=self.readings.remaining_ms(writer) if writer.stand.holds else None,
        )

    def _stands_by(self, writer: Writer) -> StandBy | None:
        if writer.stand.at is None:
            return None
        return "noted" if writer.stand.by_report else "registered"

    def _expires_in(self, writer: Writer) -> int | None:
        if self.progress.holders and not writer.stand.holds:
            return None  # those below it come first
        end = self.readings.end_of(writer)
        return None if end is None else max(0, end - self.now.listening_ms)

    def _behind(self, writer: Writer) -> int | None:
        leader, newest = self.progress.leader, self.newest
        goal = leader.stand.at if leader is not None else newest.lower if newest else None
        if writer.stand.at is None or goal is None or (newest is not None and newest.final):
            return None
        # Two times can lie further apart than 64 bits hold.
        return min(max(0, goal - writer.stand.at), END_OF_TIME)

    @property
    def _stood_ms(self) -> int | None:
        return None if self.newest is None else self._since(self.newest.marked_ms)

    def _since(self, wall_ms: int | None) -> int | None:
        return None if wall_ms is None else max(0, self.now.wall_ms - wall_ms)
