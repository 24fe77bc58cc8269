"""Inspection: what operators ask about the writers of a stream, answered from memory."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from tidegauge.aggregation.progress import Progress
from tidegauge.aggregation.roster import Roster
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now, Writer, WriterState
from tidegauge.event_time import END_OF_TIME
from tidegauge.explain.explanation import Explanation, explain
from tidegauge.explain.situation import Situation, WriterStatus
from tidegauge.lattice import DownSet
from tidegauge.marks import Mark
from tidegauge.topology import Topology

_SHOWN = 10


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
    marked_ms
        Wall clock of that mark.
    reach
        What the next cut is made of.
    roster, progress
        Its writers, and where they stand.
    """

    now: Now
    stream: str
    settings: StreamSettings
    topology: Topology
    newest: Mark | None
    marked_ms: int | None
    reach: DownSet
    roster: Roster
    progress: Progress

    def status(self, writer: str) -> WriterStatus:
        """Describe a writer; raises `UnknownWriterError`."""
        return self._status(self.roster.get(writer))

    def statuses(
        self, *, after: str = "", states: Collection[WriterState] = ()
    ) -> Iterator[WriterStatus]:
        """Describe all writers, or those in some states, after a name, in order of name."""
        for writer in self.roster.after(after):
            if not states or self._state(writer) in states:
                yield self._status(writer)

    def count_states(self) -> Counter[WriterState]:
        """Count the writers in each state; the cost does not grow with the writers."""
        progress, standings = self.progress, self.roster.standings
        joining = len(progress.joining)
        behind = len(progress.holders) - joining if progress.ahead else 0
        return Counter(
            {
                "joining": joining,
                "active": standings["live"] - joining - behind,
                "behind": behind,
                "expired": standings["expired"],
                "left": standings["left"],
            }
        )

    @property
    def held_ms(self) -> int:
        """Listening time since somebody has waited for a writer that stands; 0 if nobody waits."""
        somebody_waits = bool(self.progress.ahead)
        since = (one.hold_since_ms for one in self.progress.clocks if one.holds)
        oldest = next(since, None) if somebody_waits else None
        return 0 if oldest is None else self.now.listening_ms - oldest

    def explain(self) -> Explanation:
        """Say why the watermark is where it is; the cost does not grow with the writers."""
        progress, leader, heard = self.progress, self.progress.leader, self.roster.last_heard
        return explain(
            Situation(
                stream=self.stream,
                newest=self.newest,
                stood_ms=self._since(self.marked_ms),
                settings=self.settings,
                states=self.count_states(),
                reporters=self.roster.reporters,
                holders=[self._status(one) for one in self._first_holders()],
                holder_count=len(progress.holders),
                waiting=[one.name for one in islice(progress.ahead, _SHOWN)],
                waiting_count=len(progress.ahead),
                leader=None if leader is None else self._status(leader),
                heard=None if heard is None else self._status(heard),
                wall_ms=self.now.wall_ms,
                unplaced=self._is_unplaced(),
            )
        )

    def _first_holders(self) -> list[Writer]:
        """Choose whom to show: who is dropped first, all that have said nothing, then others."""
        progress = self.progress
        running = (one for one in progress.clocks if one.holds)
        somebody_is_dropped = (
            progress.ahead and self.settings.aggregation_timeout_ms is not None
        )
        next_dropped = islice(running, 1 if somebody_is_dropped else 0)
        some = (next_dropped, progress.joining, running, progress.holders)
        chosen = chain.from_iterable(islice(those, _SHOWN) for those in some)
        return list(islice(dict.fromkeys(chosen), _SHOWN))

    def _is_unplaced(self) -> bool:
        external = all(one.key_range is None for one in self.topology.segments.values())
        return external and self.newest is not None and not any(self.reach.values())

    def _state(self, writer: Writer) -> WriterState:
        return writer.state(somebody_waits=bool(self.progress.ahead))

    def _status(self, writer: Writer) -> WriterStatus:
        holding = expires = None
        if writer.hold_since_ms is not None:
            holding = self.now.listening_ms - writer.hold_since_ms
            if self.settings.aggregation_timeout_ms is not None:
                expires = max(0, self.settings.aggregation_timeout_ms - holding)
        return WriterStatus(
            writer=writer.name,
            state=self._state(writer),
            incarnation=writer.incarnation,
            time=writer.time,
            position=writer.whole_position,
            behind_ms=self._behind(writer),
            silent_ms=self._since(writer.heard_ms),
            holding_ms=holding,
            expires_in_ms=expires,
        )

    def _behind(self, writer: Writer) -> int | None:
        leader, newest = self.progress.leader, self.newest
        goal = leader.time if leader is not None else newest.lower if newest else None
        if writer.time is None or goal is None or (newest is not None and newest.final):
            return None
        # Two times can lie further apart than 64 bits tell.
        return min(max(0, goal - writer.time), END_OF_TIME)

    def _since(self, wall_ms: int | None) -> int | None:
        return None if wall_ms is None else max(0, self.now.wall_ms - wall_ms)
