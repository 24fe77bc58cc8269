"""Reader groups under any interleaving, while segments split and merge.

One owner a segment, nothing lost, nothing skipped, shares even again after one step of each.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.property.events import Shape
from tests.property.topologies import SOME, chosen, core_topology, shapes
from tidegauge import groups
from tidegauge.errors import InvalidTransitionError, ReaderFencedError
from tidegauge.groups import GroupState, SegmentRef
from tidegauge.lattice import cut_of, down_set

STREAM = "s/one"
READERS = st.sampled_from(["a", "b", "c"])
OFFSETS = st.integers(0, 3)
MOST_SEGMENTS = 14
"""Topologies are walked without memory: more of them take long."""


class Groups(RuleBasedStateMachine):
    """Readers that act on states they read some time ago, as processes do."""

    @initialize(shape=shapes())
    def begin(self, shape: Shape) -> None:
        self._become(shape)
        self.state = groups.start(self.topologies, {})
        self.epochs: dict[str, int] = {}
        self.read: dict[SegmentRef, int] = {}
        """By how far each segment was read by anybody, without a gap."""

    def _become(self, shape: Shape) -> None:
        self.shape = shape
        self.topology = core_topology(shape)
        self.topologies = {STREAM: self.topology}

    def _apply(self, after: GroupState) -> None:
        """Write as the service does: checked, whoever made it."""
        groups.check_change(self.state, after, self.topologies)
        self.state = after

    def _owned(self, reader: str) -> list[SegmentRef]:
        return sorted(self.state.readers[reader].owned)

    @rule(reader=READERS)
    def join(self, reader: str) -> None:
        former = self.epochs.get(reader)
        after = groups.join_group(self.state, reader)
        self._apply(after)
        self.epochs[reader] = after.epochs
        if former is not None:
            with pytest.raises(ReaderFencedError):
                groups.advance(self.state, reader, former, {})

    @precondition(lambda self: len(self.shape.predecessors) < MOST_SEGMENTS)
    @rule(sealed=SOME, successors=st.lists(SOME, min_size=1, max_size=3), unread=OFFSETS)
    def scale(self, sealed: int, successors: list[int], unread: int) -> None:
        """Seal some growing segments where they were read, or beyond; others continue them."""
        numbers = chosen(self.shape.growing, sealed)
        lengths = {one: self.read.get(SegmentRef(STREAM, one), 0) + unread for one in numbers}
        first = len(self.shape.predecessors)
        added = {first + at: tuple(chosen(numbers, bits)) for at, bits in enumerate(successors)}
        self._become(self.shape.scaled(lengths, added))

    @precondition(lambda self: self.state.readers)
    @rule()
    def die(self) -> None:
        """Take the reader with most segments offline where it confirmed, as its silence does."""
        reader = max(self.state.readers, key=lambda name: (len(self._owned(name)), name))
        before = self.state.position(STREAM)
        self._apply(
            groups.go_offline(self.state, reader, self.epochs.pop(reader), self.topologies)
        )
        assert self.state.position(STREAM) == before, "the window goes back"

    @precondition(lambda self: self.state.readers)
    @rule()
    def shares_are_even_after_one_step_of_each(self) -> None:
        """Those who own most come first: they release what the others acquire."""
        order = sorted(self.state.readers, key=lambda name: -len(self._owned(name)))
        for reader in order:
            self._balance(reader)
        counts = [len(self._owned(name)) for name in order]
        assert max(counts) - min(counts) <= 1
        assert not self.state.unassigned

    @precondition(lambda self: self.state.readers)
    @rule(data=st.data())
    def balance(self, data: st.DataObject) -> None:
        self._balance(data.draw(st.sampled_from(sorted(self.state.readers))))

    def _balance(self, reader: str) -> None:
        epoch, state = self.epochs[reader], self.state
        most = groups.share(state, reader)
        while len(state.readers[reader].owned) > most:
            state = groups.release(state, reader, epoch, max(state.readers[reader].owned))
        while state.unassigned and len(state.readers[reader].owned) < most:
            state = groups.acquire(state, reader, epoch, min(state.unassigned))
        self._apply(state)

    @precondition(lambda self: any(one.owned for one in self.state.readers.values()))
    @rule(data=st.data())
    def read_on(self, data: st.DataObject) -> None:
        reader = data.draw(
            st.sampled_from([name for name in self.state.readers if self._owned(name)])
        )
        ref = data.draw(st.sampled_from(self._owned(reader)))
        at = self.state.readers[reader].owned[ref]
        length = self.topology[ref.segment].sealed_length
        end = data.draw(st.integers(at, at + 50 if length is None else length))
        assert at <= self.read.get(ref, 0), "events were skipped"
        state = groups.advance(self.state, reader, self.epochs[reader], {ref: end})
        self.read[ref] = max(self.read.get(ref, 0), end)
        if end == length:
            state = groups.complete(state, reader, self.epochs[reader], ref, self.topology)
        self._apply(state)

    @precondition(lambda self: self.state.readers)
    @rule(data=st.data())
    def go_offline(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(sorted(self.state.readers)))
        back = {
            ref: data.draw(st.integers(0, offset))
            for ref, offset in self.state.readers[reader].owned.items()
        }
        self._apply(
            groups.go_offline(self.state, reader, self.epochs[reader], self.topologies, back)
        )
        del self.epochs[reader]

    @precondition(lambda self: self.state.readers)
    @rule(reader=READERS, data=st.data())
    def take_over_at_a_checkpoint(self, reader: str, data: st.DataObject) -> None:
        names = sorted(self.state.checkpoints)
        if not names:
            self._apply(groups.checkpoint(self.state, "first"))
            return
        saved = self.state.checkpoints[data.draw(st.sampled_from(names))]
        position = {ref.segment: offset for ref, offset in saved.items()}
        after = groups.take_over(self.state, reader, self.topologies, {STREAM: position})
        self._apply(after)
        self.epochs = {reader: after.epochs}
        assert down_set(self.topology, after.position(STREAM)) == down_set(
            self.topology, position
        )

    @precondition(lambda self: self.state.readers)
    @rule(data=st.data())
    def go_on_where_the_stream_begins(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(sorted(self.state.readers)))
        number = data.draw(st.sampled_from(self.topology.in_order))
        length = self.topology[number].sealed_length
        offset = data.draw(st.integers(0, 50 if length is None else length))
        first = cut_of(self.topology, {number: offset})
        self._apply(
            groups.skip_truncated(
                self.state, reader, self.epochs[reader], STREAM, self.topology, first
            )
        )
        gone = down_set(self.topology, first)
        for ref, at in [
            *self.state.readers[reader].owned.items(),
            *self.state.unassigned.items(),
        ]:
            assert at >= gone.get(ref.segment, 0)
        for segment, count in gone.items():
            ref = SegmentRef(STREAM, segment)
            self.read[ref] = max(self.read.get(ref, 0), count)

    @precondition(lambda self: any(self.state.offsets.values()))
    @rule(data=st.data())
    def nobody_goes_back_while_reading(self, data: st.DataObject) -> None:
        moved = sorted(ref for ref, offset in self.state.unassigned.items() if offset)
        if not moved:
            return
        ref = data.draw(st.sampled_from(moved))
        unassigned = dict(self.state.unassigned) | {ref: self.state.unassigned[ref] - 1}
        after = GroupState(
            self.state.readers,
            unassigned,
            self.state.completed,
            self.state.epochs,
            self.state.checkpoints,
        )
        with pytest.raises(InvalidTransitionError):
            groups.check_change(self.state, after, self.topologies)

    @invariant()
    def what_the_position_covers_was_read(self) -> None:
        covered = down_set(self.topology, self.state.position(STREAM))
        for number, count in covered.items():
            assert count <= self.read.get(SegmentRef(STREAM, number), 0)

    @invariant()
    def every_open_segment_is_in_exactly_one_place(self) -> None:
        parts = [self.state.unassigned, self.state.completed]
        parts += [one.owned for one in self.state.readers.values()]
        places = [ref for part in parts for ref in part]
        assert len(places) == len(set(places))
        opened = {
            SegmentRef(STREAM, number)
            for number in self.topology.in_order
            if all(
                SegmentRef(STREAM, before) in self.state.completed
                for before in self.topology[number].predecessors
            )
        }
        assert set(places) == opened


Groups.TestCase.settings = settings(
    max_examples=settings().max_examples * 3 // 5, stateful_step_count=30
)
TestGroups = Groups.TestCase
