"""Where the writers of one stream stand against its watermark."""

from tidegauge.aggregation.holds import HoldClocks
from tidegauge.aggregation.writers import Writer, WriterState
from tidegauge.event_time import FIRST_TIME


class Progress:
    """Who is ahead of the watermark, who holds it, and who has not said anything yet.

    Attributes
    ----------
    ahead
        Writers, live or left, that noted a time above the watermark: they wait if others hold.
    holders
        Live writers that hold the watermark.
    joining
        Live writers that have not reported in this incarnation.
    clocks
        Of the holders.
    """

    def __init__(self) -> None:
        self.ahead: dict[Writer, None] = {}
        self.holders: dict[Writer, None] = {}
        self.joining: set[Writer] = set()
        self._leader: Writer | None = None
        self._leader_time = FIRST_TIME
        self.clocks = HoldClocks()

    def classify(self, writer: Writer, watermark: int | None) -> None:
        """Look at a writer again: it, or the watermark, has changed."""
        time, live = writer.time, writer.standing == "live"
        ahead = (
            time is not None
            and (watermark is None or time > watermark)
            and writer.standing != "expired"
        )
        if ahead is not writer.ahead:
            self._set_ahead(writer, ahead=ahead)
        holds = live and not ahead and (time is None or watermark is not None)
        if holds is not writer.holds:
            self._set_holds(writer, holds=holds)
        if time is None and live:
            self.joining.add(writer)
            return
        if self.joining:
            self.joining.discard(writer)
        if ahead and time is not None:
            self.follow(writer, time)

    def follow(self, writer: Writer, time: int) -> None:
        """Note the time of a writer that is ahead, as it was before."""
        if time > self._leader_time:
            self._leader, self._leader_time = writer, time

    def state(self, writer: Writer | None) -> WriterState:
        """Name a writer's state; one that is forgotten stays expired."""
        return "expired" if writer is None else writer.state(somebody_waits=bool(self.ahead))

    @property
    def leader(self) -> Writer | None:
        """The writer that is furthest ahead; None if nobody is ahead."""
        leader = self._leader
        if leader is None or not leader.ahead or leader.time != self._leader_time:
            leader = self._leader = max(self.ahead, key=_time, default=None)
            self._leader_time = FIRST_TIME if leader is None else _time(leader)
        return leader

    @property
    def greatest(self) -> int:
        """The time of the writer that is furthest ahead, ms."""
        return FIRST_TIME if self.leader is None else _time(self.leader)

    def goes(self, writer: Writer) -> None:
        """Note that a writer is not live any more."""
        self.clocks.clear(writer)

    def forget(self, writer: Writer) -> None:
        """Leave out a writer that is gone."""
        if writer.ahead:
            self._set_ahead(writer, ahead=False)

    def look_at_clocks(self, listening_ms: int) -> None:
        """Start and stop the clocks of the holders."""
        self.clocks.look(listening_ms, somebody_waits=bool(self.ahead))

    def run_out(self, listening_ms: int, timeout_ms: int | None) -> list[Writer]:
        """List the holders whose clocks have run for the timeout."""
        return self.clocks.run_out(listening_ms, timeout_ms)

    @property
    def may_rise(self) -> bool:
        """Whether somebody is ahead of the watermark, and nobody holds it."""
        return bool(self.ahead) and not self.holders

    def _set_ahead(self, writer: Writer, *, ahead: bool) -> None:
        writer.ahead = ahead
        if ahead:
            self.ahead[writer] = None
        else:
            del self.ahead[writer]

    def _set_holds(self, writer: Writer, *, holds: bool) -> None:
        writer.holds = holds
        if holds:
            self.holders[writer] = None
            self.clocks.begin_holding(writer)
            return
        del self.holders[writer]
        if writer.live:
            self.clocks.end_holding(writer)
        else:
            self.clocks.clear(writer)


def _time(writer: Writer) -> int:
    return FIRST_TIME if writer.time is None else writer.time
