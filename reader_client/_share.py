"""What a reader owns of its group, and how far it has read: pure."""

from collections import deque
from collections.abc import Mapping
from itertools import islice

from tidegauge import groups
from tidegauge.groups import GroupState, Offsets, SegmentRef
from tidegauge.topology import Topology
from tidegauge.wire.streams import StreamInfo, Tail

Topologies = Mapping[str, Topology]


def step(
    state: GroupState, reader: str, epoch: int, returned: Offsets, topologies: Topologies
) -> GroupState:
    """Confirm what was returned, complete what is read, and take or release up to a fair share."""
    owned = state.readers[reader].owned if reader in state.readers else {}
    # The race: it completed or released one, and did not learn it; then that is confirmed, too.
    confirmed = {ref: offset for ref, offset in returned.items() if ref in owned}
    state = groups.advance(state, reader, epoch, confirmed)
    for ref, offset in dict(state.readers[reader].owned).items():
        topology = topologies[ref.stream]
        if offset == topology[ref.segment].sealed_length:
            state = groups.complete(state, reader, epoch, ref, topology)
    most = groups.share(state, reader)
    while len(state.readers[reader].owned) > most:
        state = groups.release(state, reader, epoch, max(state.readers[reader].owned))
    # A segment that opened after the topologies were read is taken with the next step.
    free = (ref for ref in sorted(state.unassigned) if ref.segment in topologies[ref.stream])
    for ref in islice(free, max(0, most - len(state.readers[reader].owned))):
        state = groups.acquire(state, reader, epoch, ref)
    return state


class Share:
    """The segments of a reader, and how far it has read each.

    Attributes
    ----------
    tails
        How far each stream went at the last step.
    owned
        Its segments, and what it has confirmed of them.
    returned
        What it has read beyond that.
    is_settled
        Whether it owned its share, and knew all segments, at the last step.
    """

    def __init__(self) -> None:
        self.tails: dict[str, Tail] = {}
        self.owned: dict[SegmentRef, int] = {}
        self.returned: dict[SegmentRef, int] = {}
        self.is_settled = False
        self._streams: dict[str, StreamInfo] = {}
        """As they were when the reader last took its share."""
        self._ends: dict[SegmentRef, int] = {}
        """Sealed lengths, of those of its segments that are sealed."""
        self._turn: deque[SegmentRef] = deque()
        """What it owns, beginning with what was not read for the longest."""

    def learn(self, streams: Mapping[str, StreamInfo]) -> Topologies:
        """Record how streams are now, and return their topologies."""
        self._streams = dict(streams)
        self.tails = {stream: _tail_of(info) for stream, info in streams.items()}
        return {stream: info.topology.to_topology() for stream, info in streams.items()}

    def take(self, state: GroupState, reader: str, epoch: int, topologies: Topologies) -> None:
        """Record what the reader owns behind a step."""
        self.returned.clear()
        self.owned = dict(state.readers[reader].owned)
        lengths = {ref: topologies[ref.stream][ref.segment].sealed_length for ref in self.owned}
        self._ends = {ref: length for ref, length in lengths.items() if length is not None}
        self.is_settled = groups.has_its_share(state, reader, epoch)
        self._turn = deque(ref for ref in self._turn if ref in self.owned)
        self._turn.extend(ref for ref in sorted(self.owned) if ref not in self._turn)

    def confirm(self, returned: Offsets) -> None:
        """Record that what was returned is confirmed."""
        self.owned |= returned
        self.returned.clear()

    @property
    def needs_step(self) -> bool:
        """Whether there may be segments to complete, release or acquire."""
        changed = (
            (tail.topology_revision, tail.final) != (info.topology.revision, info.final)
            for tail, info in zip(self.tails.values(), self._streams.values(), strict=True)
        )
        is_read = (self.offset(ref) == end for ref, end in self._ends.items())
        return not self.is_settled or any(changed) or any(is_read)

    @property
    def growing(self) -> set[str]:
        """The streams that are not sealed yet."""
        return {stream for stream, tail in self.tails.items() if not tail.final}

    def offset(self, ref: SegmentRef) -> int:
        """Return how far a segment is read."""
        return self.returned.get(ref, self.owned[ref])

    @property
    def readable(self) -> list[SegmentRef]:
        """The segments with events beyond what is read, in turn."""
        return [
            ref
            for ref in self._turn
            if self.offset(ref) < self.tails[ref.stream].tail.get(ref.segment, 0)
        ]

    def next(self) -> SegmentRef | None:
        """Return the next readable segment; none waits for a busy one."""
        readable = self.readable
        if not readable:
            return None
        self._turn.rotate(-1 - self._turn.index(readable[0]))
        return readable[0]


def _tail_of(info: StreamInfo) -> Tail:
    """Make a tail of a description."""
    return Tail(
        stream_id=info.stream_id,
        watermark=info.watermark,
        final=info.final,
        tail=info.tail or {},
        first_cut=info.first_cut or {},
        topology_revision=info.topology.revision,
        revision=info.revision,
    )
