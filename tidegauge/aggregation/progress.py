"""Where the writers of one stream stand against its watermark."""

from heapq import heappop, heappush

from tidegauge.aggregation.changes import Presence
from tidegauge.aggregation.writers import Writer
from tidegauge.event_time import FIRST_TIME
from tidegauge.states import WriterState


class Progress:
    """Which writers are ahead of the watermark, which hold it, and which have not reported yet.

    Attributes
    ----------
    ahead
        Writers, live or left, that stand above the watermark: they wait if others hold.
    holders
        Live writers that hold the watermark: they stand at or below it, or nowhere.
    behind
        Those of them that have reported.
    joining
        Live writers that have not reported in this incarnation.
    returning
        Writers that are out, and on their way back.
    moved
        Writers that came to hold or ceased to since the latest pass, and their presence then.
    """

    def __init__(self) -> None:
        self.ahead: dict[Writer, None] = {}
        self.holders: dict[Writer, None] = {}
        self.behind: dict[Writer, None] = {}
        self.joining: dict[Writer, None] = {}
        self.returning: dict[Writer, None] = {}
        self.moved: dict[Writer, Presence] = {}
        self._leader: Writer | None = None
        self._leader_stand = FIRST_TIME
        self._registered: dict[Writer, int] = {}
        """Live writers that are ahead by their registration, without a report, and where they stand."""
        self._registered_in_order: list[tuple[int, int, Writer]] = []
        """The same as a heap; entries that are not true any more are skipped."""
        self._entries = 0
        self._left_registered: dict[Writer, None] = {}
        """Such writers that left."""

    def classify(self, writer: Writer, watermark: int | None) -> None:
        """Put a writer into the sets that it belongs to: it, or the watermark, has changed."""
        place, live = writer.stand, writer.life.presence == "live"
        stand = place.at
        ahead = (
            stand is not None
            and (watermark is None or stand > watermark)
            and writer.life.presence != "expired"
        )
        if ahead is not place.ahead:
            self._set_ahead(writer, ahead=ahead)
        holds = live and not ahead
        if holds is not place.holds:
            place.holds = holds
            _put(self.holders, writer, among=holds)
            if self.moved.pop(writer, None) is None:  # otherwise it is as it was
                self.moved[writer] = writer.life.presence
        if not live or self.returning:
            _put(self.returning, writer, among=writer.returning)
        if writer.noted.time is None:
            _put(self.behind, writer, among=False)
            _put(self.joining, writer, among=live)
            self._put_registered(writer, stand if ahead else None)
        else:
            _put(self.joining, writer, among=False)
            _put(self.behind, writer, among=holds)
            if self._registered:
                self._registered.pop(writer, None)
        if ahead and stand is not None:
            self.follow(writer, stand)

    def follow(self, writer: Writer, stand: int) -> None:
        """Record where a writer stands that is ahead, as it was before."""
        if stand > self._leader_stand:
            self._leader, self._leader_stand = writer, stand

    def state(self, writer: Writer | None) -> WriterState:
        """Return a writer's state; one that is forgotten stays expired."""
        return "expired" if writer is None else writer.state(somebody_waits=bool(self.ahead))

    @property
    def leader(self) -> Writer | None:
        """The writer that is furthest ahead; None if nobody is ahead."""
        leader = self._leader
        if leader is None or not leader.stand.ahead or leader.stand.at != self._leader_stand:
            leader = self._leader = max(self.ahead, key=_stand, default=None)
            self._leader_stand = FIRST_TIME if leader is None else _stand(leader)
        return leader

    @property
    def greatest(self) -> int | None:
        """Where the writer stands that is furthest ahead, ms; None if nobody is ahead."""
        return None if self.leader is None else self.leader.stand.at

    @property
    def least_registered(self) -> int | None:
        """The least that a live writer without a report stands at, ms."""
        heap = self._registered_in_order
        while heap and self._registered.get(heap[0][2]) != heap[0][0]:
            heappop(heap)
        return heap[0][0] if heap else None

    def registered_up_to(self, watermark: int) -> list[Writer]:
        """List the writers without a report that stand at or below a new watermark."""
        writers = [
            writer
            for writer in self._left_registered
            if writer.stand.at is None or writer.stand.at <= watermark
        ]
        while (least := self.least_registered) is not None and least <= watermark:
            writer = heappop(self._registered_in_order)[2]
            del self._registered[writer]
            writers.append(writer)
        return writers

    def forget(self, writer: Writer) -> None:
        """Remove a writer that is forgotten."""
        if writer.stand.ahead:
            self._set_ahead(writer, ahead=False)
        self._left_registered.pop(writer, None)
        self.returning.pop(writer, None)

    @property
    def may_rise(self) -> bool:
        """Whether somebody is ahead of the watermark, and nobody holds it."""
        return bool(self.ahead) and not self.holders

    def _put_registered(self, writer: Writer, stand: int | None) -> None:
        """Record where a writer stands that is ahead without a report; None if it is not."""
        live = writer.life.presence == "live"
        _put(self._left_registered, writer, among=stand is not None and not live)
        if stand is None or not live:
            self._registered.pop(writer, None)
        elif self._registered.get(writer) != stand:
            self._registered[writer] = stand
            self._entries += 1
            heappush(self._registered_in_order, (stand, self._entries, writer))

    def _set_ahead(self, writer: Writer, *, ahead: bool) -> None:
        writer.stand.ahead = ahead
        _put(self.ahead, writer, among=ahead)


def _put(writers: dict[Writer, None], writer: Writer, *, among: bool) -> None:
    if among:
        writers[writer] = None
    else:
        writers.pop(writer, None)


def _stand(writer: Writer) -> int:
    return FIRST_TIME if writer.stand.at is None else writer.stand.at
