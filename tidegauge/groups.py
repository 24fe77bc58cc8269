"""Reader groups: the shared state, and the pure transitions by which it changes.

A group's state is one revisioned document. Readers change it by compare-and-set: read it, apply a
transition, write it back; the loser of the race reads again and applies its transition again. The
service checks every change with `check_change`, whatever made it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tidegauge.errors import (
    InvalidPositionError,
    InvalidTransitionError,
    ReaderFencedError,
    UnknownReaderError,
)
from tidegauge.lattice import cut_of, down_set, join
from tidegauge.topology import Position, Topology

Topologies: TypeAlias = Mapping[str, Topology]
"""The topology of each stream of a group, by ``scope/stream``."""


@dataclass(frozen=True, slots=True, order=True)
class SegmentRef:
    """A segment of one of the group's streams."""

    stream: str
    segment: int


Offsets: TypeAlias = Mapping[SegmentRef, int]


@dataclass(frozen=True, slots=True)
class ReaderState:
    """One reader of a group.

    Attributes
    ----------
    epoch
        Of the process that has the name; a newer one takes it over with a higher epoch.
    owned
        Its segments and the offsets that it has confirmed.
    """

    epoch: int
    owned: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupState:
    """The shared state of a reader group.

    Attributes
    ----------
    readers
        By name.
    unassigned
        Open segments that nobody owns, and where to read more.
    completed
        Segments read to their end, at their sealed length.
    epochs
        The highest epoch that was given out; the next one is above it.
    checkpoints
        Named positions to resume from exactly.
    """

    readers: Mapping[str, ReaderState] = field(default_factory=dict)
    unassigned: Offsets = field(default_factory=dict)
    completed: Offsets = field(default_factory=dict)
    epochs: int = 0
    checkpoints: Mapping[str, Offsets] = field(default_factory=dict)

    @property
    def offsets(self) -> dict[SegmentRef, int]:
        """The group's offset in every segment that it has opened."""
        owned = (reader.owned for reader in self.readers.values())
        merged: dict[SegmentRef, int] = {}
        for part in (self.completed, self.unassigned, *owned):
            merged |= part
        return merged

    def position(self, stream: str) -> Position:
        """Return the group's position in a stream: the positions of all its readers joined."""
        return _in_stream(self.offsets, stream)

    def frontier(self, stream: str, topology: Topology) -> Position:
        """Return the position without the segments that others in it continue: these are complete."""
        position, after = self.position(stream), topology.successors
        return {
            number: offset
            for number, offset in position.items()
            if not any(successor in position for successor in after.get(number, ()))
        }

    def resumable(self, stream: str) -> dict[str | None, Position]:
        """Return where in a stream the group may go on: its position (None), and its checkpoints'."""
        positions: dict[str | None, Position] = {None: self.position(stream)}
        return positions | {
            name: _in_stream(offsets, stream) for name, offsets in self.checkpoints.items()
        }


def start(topologies: Topologies, positions: Mapping[str, Position]) -> GroupState:
    """Make the state of a new group that starts at a position of each stream."""
    unassigned: dict[SegmentRef, int] = {}
    completed: dict[SegmentRef, int] = {}
    for stream, topology in topologies.items():
        counts = join(topology, [positions.get(stream, {})])
        frontier = cut_of(topology, counts)
        passed = set(topology.ancestors.listed(topology.ancestors.of(frontier)))
        for number in topology.in_order:
            ref = SegmentRef(stream, number)
            if number in frontier:
                unassigned[ref] = frontier[number]
            elif number in passed:
                completed[ref] = counts.get(number, 0)
    return GroupState(unassigned=unassigned, completed=completed)


def join_group(state: GroupState, reader: str) -> GroupState:
    """Add a reader; under a name that is there it takes over, with a higher epoch."""
    epoch = state.epochs + 1
    owned = state.readers[reader].owned if reader in state.readers else {}
    readers = dict(state.readers) | {reader: ReaderState(epoch, owned)}
    return replace(state, readers=readers, epochs=epoch)


def acquire(state: GroupState, reader: str, epoch: int, ref: SegmentRef) -> GroupState:
    """Assign an unassigned segment to a reader."""
    member = _member(state, reader, epoch)
    if ref not in state.unassigned:
        raise _illegal(ref, "is not unassigned")
    unassigned = dict(state.unassigned)
    offset = unassigned.pop(ref)
    owned = dict(member.owned) | {ref: offset}
    return replace(_with(state, reader, owned), unassigned=unassigned)


def release(state: GroupState, reader: str, epoch: int, ref: SegmentRef) -> GroupState:
    """Return a segment to the unassigned ones, at its confirmed offset."""
    owned = dict(_member(state, reader, epoch).owned)
    offset = _pop_owned(owned, reader, ref)
    unassigned = dict(state.unassigned) | {ref: offset}
    return replace(_with(state, reader, owned), unassigned=unassigned)


def advance(state: GroupState, reader: str, epoch: int, offsets: Offsets) -> GroupState:
    """Confirm how far a reader has read."""
    owned = dict(_member(state, reader, epoch).owned)
    for ref, offset in offsets.items():
        if ref not in owned:
            _pop_owned(owned, reader, ref)
        if offset < owned[ref]:
            raise _illegal(ref, f"is at {owned[ref]}, beyond {offset}")
        owned[ref] = offset
    return _with(state, reader, owned)


def complete(
    state: GroupState, reader: str, epoch: int, ref: SegmentRef, topology: Topology
) -> GroupState:
    """Record that a segment is read to its end; its successors open once all before them are."""
    owned = dict(_member(state, reader, epoch).owned)
    offset, length = _pop_owned(owned, reader, ref), topology[ref.segment].sealed_length
    if offset != length:
        raise _illegal(ref, f"is read to {offset}, and its sealed length is {length}")
    completed = dict(state.completed) | {ref: offset}
    changed = replace(_with(state, reader, owned), completed=completed)
    return open_segments(changed, ref.stream, topology)


def open_segments(state: GroupState, stream: str, topology: Topology) -> GroupState:
    """Add the segments that have opened: new partitions, successors of completed ones.

    Empty sealed ones are complete at once, so that nobody has to take each of them in turn.
    """
    known = state.offsets
    completed, opened = dict(state.completed), dict[SegmentRef, int]()
    for number in topology.in_order:
        ref, segment = SegmentRef(stream, number), topology[number]
        before = (SegmentRef(stream, predecessor) for predecessor in segment.predecessors)
        if ref not in known and all(predecessor in completed for predecessor in before):
            (completed if segment.sealed_length == 0 else opened)[ref] = 0
    if not opened and len(completed) == len(state.completed):
        return state
    unassigned = dict(state.unassigned) | opened
    return replace(state, unassigned=unassigned, completed=completed)


def go_offline(
    state: GroupState,
    reader: str,
    epoch: int,
    topologies: Topologies,
    position: Offsets | None = None,
) -> GroupState:
    """Remove a reader; its segments go back at its confirmed offsets, or at a position.

    The only transition in which offsets may go back: what the reader had not confirmed, or not
    finished with, is read again.

    Raises
    ------
    UnknownReaderError
        If the group has no such reader.
    ReaderFencedError
        If the name was taken over.
    InvalidTransitionError
        If the position names a segment that the reader does not own, or goes back before one
        whose successors were opened.
    """
    if reader not in state.readers:
        raise UnknownReaderError(reader)
    back = dict(_member(state, reader, epoch).owned)
    completed = dict(state.completed)
    for ref, offset in (position or {}).items():
        if ref not in completed:
            _pop_owned(back, reader, ref)
            back[ref] = offset
        elif offset < completed[ref]:
            _refuse_if_opened(state, ref, topologies[ref.stream])
            del completed[ref]
            back[ref] = offset
    readers = {name: member for name, member in state.readers.items() if name != reader}
    return replace(
        state, readers=readers, unassigned=dict(state.unassigned) | back, completed=completed
    )


def assign_all(
    state: GroupState,
    reader: str,
    epoch: int,
    topologies: Topologies,
    positions: Mapping[str, Position],
) -> GroupState:
    """Assign all that is open to the only reader of a group, and confirm a position of each stream."""
    _member(state, reader, epoch)
    fresh = start(topologies, positions)
    readers = {reader: ReaderState(epoch, fresh.unassigned)}
    return replace(state, readers=readers, unassigned={}, completed=fresh.completed)


def take_over(
    state: GroupState, reader: str, topologies: Topologies, positions: Mapping[str, Position]
) -> GroupState:
    """Take every reader offline, and add one that reads on alone from a position, further back too."""
    epoch = state.epochs + 1
    alone = replace(state, readers={reader: ReaderState(epoch)}, epochs=epoch)
    return assign_all(alone, reader, epoch, topologies, positions)


def confirm(
    state: GroupState, reader: str, epoch: int, topologies: Topologies, offsets: Offsets
) -> GroupState:
    """Assign exactly these segments to a reader, and confirm how far it has read in them.

    For logs that assign segments to readers by themselves. Partitions that are new are opened. It
    is illegal while another reader owns one of them still.
    """
    for stream, topology in topologies.items():
        state = open_segments(state, stream, topology)
    for ref in _member(state, reader, epoch).owned.keys() - offsets.keys():
        state = release(state, reader, epoch, ref)
    for ref in offsets.keys() - state.readers[reader].owned.keys():
        state = acquire(state, reader, epoch, ref)
    return advance(state, reader, epoch, offsets)


def skip_truncated(
    state: GroupState,
    reader: str,
    epoch: int,
    stream: str,
    topology: Topology,
    first: Position,
) -> GroupState:
    """Move a reader to where a stream begins: what is truncated counts as read.

    Of its own segments and of those that nobody owns; it takes the latter if it has to, and those
    that open when a whole segment is gone.

    Parameters
    ----------
    first
        The first cut of the stream.
    """
    gone = down_set(topology, first)
    passed = set(topology.ancestors.listed(topology.ancestors.of(first)))
    owned, unassigned = dict(_member(state, reader, epoch).owned), dict(state.unassigned)
    completed = dict(state.completed)
    elsewhere = state.offsets.keys() - owned.keys() - unassigned.keys()
    for number in topology.in_order:
        ref, count = SegmentRef(stream, number), gone.get(number, 0)
        before = (
            SegmentRef(stream, predecessor) for predecessor in topology[number].predecessors
        )
        is_read = number not in passed and owned.get(ref, unassigned.get(ref, 0)) >= count
        if (
            is_read
            or ref in elsewhere
            or not all(predecessor in completed for predecessor in before)
        ):
            continue
        unassigned.pop(ref, None)
        owned[ref] = count  # 0 of an empty one that is passed
        if count == topology[number].sealed_length:
            completed[ref] = owned.pop(ref)
    skipped = replace(_with(state, reader, owned), unassigned=unassigned, completed=completed)
    return open_segments(skipped, stream, topology)


def checkpoint(state: GroupState, name: str) -> GroupState:
    """Store the position of the group under a name."""
    return replace(state, checkpoints=dict(state.checkpoints) | {name: state.offsets})


def share(state: GroupState, reader: str) -> int:
    """Return how many segments a reader should own: one above it releases, one below acquires.

    Shares differ by one at most. The first readers have the larger ones: that of others is
    the smaller one once enough own more.

    Examples
    --------
    Of four segments and three readers only one reader keeps two; the first that checks has one:

    >>> one, two, three, four = (SegmentRef("s/one", number) for number in range(4))
    >>> state = GroupState({"a": ReaderState(1, {one: 0, two: 0}),
    ...                     "b": ReaderState(2, {three: 0, four: 0}), "c": ReaderState(3)})
    >>> share(state, "a")
    1
    >>> state = release(state, "a", 1, two)
    >>> [share(state, name) for name in "abc"]
    [1, 2, 1]
    """
    owned = {name: len(member.owned) for name, member in state.readers.items()}
    fewest, larger = divmod(len(state.unassigned) + sum(owned.values()), len(owned))
    with_more = sum(count > fewest for name, count in owned.items() if name != reader)
    return fewest + (with_more < larger)


def has_its_share(state: GroupState, reader: str, epoch: int) -> bool:
    """Return whether a reader has nothing to release, and nothing to acquire now or soon."""
    return len(_member(state, reader, epoch).owned) == share(state, reader)


def new_names(before: GroupState, after: GroupState) -> list[str]:
    """List the readers and checkpoints that a change adds."""
    readers = after.readers.keys() - before.readers.keys()
    return sorted(readers | (after.checkpoints.keys() - before.checkpoints.keys()))


def has_read_on(before: GroupState, after: GroupState, reader: str) -> bool:
    """Return whether a change confirmed more of a segment that a reader had, or finished it."""
    was, now = before.readers.get(reader), after.readers.get(reader)
    if was is None or now is None or was.epoch != now.epoch:
        return False
    return any(
        now.owned.get(ref, after.completed.get(ref, offset)) > offset
        for ref, offset in was.owned.items()
    )


def check_change(before: GroupState, after: GroupState, topologies: Topologies) -> None:
    """Check a change of the state, whoever made it; what is raised names the law that it breaks."""
    if after.epochs < before.epochs:
        msg = f"epochs cannot go back from {before.epochs} to {after.epochs}"
        raise InvalidTransitionError(msg)
    for name, reader in after.readers.items():
        if reader.epoch > after.epochs:
            msg = f"epoch {reader.epoch} of reader {name!r} was not given out"
            raise InvalidTransitionError(msg)
        known = before.readers.get(name)
        if known is not None and reader.epoch < known.epoch:
            raise ReaderFencedError(name, known.epoch)
    _check_owners(after)
    _check_openings(after, topologies)
    _check_direction(before, after)


def check_reach(before: GroupState, after: GroupState, tails: Mapping[str, Position]) -> None:
    """Check that nobody has read what was not written.

    ``tails`` are the next offsets of each stream's segments; of a stream with an external log
    nobody here knows them, and its readers are believed.
    """
    known = before.offsets
    for ref, offset in after.offsets.items():
        if ref.stream not in tails:
            continue
        tail = tails[ref.stream].get(ref.segment, 0)
        if offset > max(tail, known.get(ref, 0)):
            reason = f"nobody can have read it; the tail of {ref.stream} there is {tail}"
            raise InvalidPositionError(ref.segment, offset, reason, dict(tails[ref.stream]))


def _check_owners(state: GroupState) -> None:
    """Check that a segment has one owner; each open segment is owned, unassigned or completed."""
    seen: set[SegmentRef] = set()
    owned = (reader.owned for reader in state.readers.values())
    for part in (state.unassigned, state.completed, *owned):
        for ref in part:
            if ref in seen:
                raise _illegal(ref, "is in two places")
            seen.add(ref)


def _check_openings(state: GroupState, topologies: Topologies) -> None:
    """Check that successors open when all predecessors are complete, and then are there."""
    offsets = state.offsets
    for ref, offset in offsets.items():
        topology = topologies.get(ref.stream)
        if topology is None or ref.segment not in topology:
            msg = f"the group does not read segment {ref.segment} of {ref.stream}"
            raise InvalidTransitionError(msg)
        length = topology[ref.segment].sealed_length
        if offset < 0 or (length is not None and offset > length):
            msg = f"offset {offset} of segment {ref.segment} of {ref.stream} cannot be"
            raise InvalidTransitionError(msg)
    for stream, topology in topologies.items():
        for number in topology.in_order:
            ref, before = SegmentRef(stream, number), topology[number].predecessors
            may_open = all(
                SegmentRef(stream, predecessor) in state.completed for predecessor in before
            )
            if ref in offsets and not may_open:
                raise _illegal(ref, "opens once all before it are complete")
            if ref not in offsets and before and may_open:
                raise _illegal(ref, "is open and must not get lost")


def _check_direction(before: GroupState, after: GroupState) -> None:
    """Check that offsets go back only with readers that went offline, and nothing gets lost."""
    newcomers = all(member.epoch > before.epochs for member in after.readers.values())
    if before.readers and after.readers and newcomers:
        return  # all readers went offline, and whoever reads now joined since
    gone = {name for name in before.readers if name not in after.readers}
    may_go_back = {ref for name in gone for ref in before.readers[name].owned}
    now = after.offsets
    for ref, offset in before.offsets.items():
        if ref not in now:
            raise _illegal(ref, "must not get lost")
        if now[ref] < offset and not (gone and (ref in may_go_back or ref in before.completed)):
            reason = "only a reader that goes offline gives offsets back"
            raise _illegal(ref, f"cannot go back from {offset} to {now[ref]}; {reason}")


def _in_stream(offsets: Offsets, stream: str) -> Position:
    return {ref.segment: offset for ref, offset in offsets.items() if ref.stream == stream}


def _member(state: GroupState, reader: str, epoch: int) -> ReaderState:
    member = state.readers.get(reader)
    if member is None or member.epoch != epoch:
        raise ReaderFencedError(reader, state.epochs if member is None else member.epoch)
    return member


def _with(state: GroupState, reader: str, owned: Offsets) -> GroupState:
    member = replace(state.readers[reader], owned=owned)
    return replace(state, readers=dict(state.readers) | {reader: member})


def _pop_owned(owned: dict[SegmentRef, int], reader: str, ref: SegmentRef) -> int:
    if ref not in owned:
        msg = f"reader {reader!r} does not own segment {ref.segment} of {ref.stream}"
        raise InvalidTransitionError(msg)
    return owned.pop(ref)


def _refuse_if_opened(state: GroupState, ref: SegmentRef, topology: Topology) -> None:
    opened = state.offsets
    for successor in topology.successors[ref.segment]:
        if SegmentRef(ref.stream, successor) in opened:
            cure = "go back to a checkpoint instead"
            raise _illegal(
                ref, f"is complete and segment {successor} after it was opened; {cure}"
            )


def _illegal(ref: SegmentRef, why: str) -> InvalidTransitionError:
    return InvalidTransitionError(f"segment {ref.segment} of {ref.stream} {why}")
