"""The topology of a stream: the DAG of its segments, which grows by scaling."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import compress
from typing import NamedTuple, Self, TypeAlias

Position: TypeAlias = Mapping[int, int]
"""Segment number to offset: how far a writer has written or a reader has read."""

GREATEST_OFFSET = 2**63 - 1


class KeyRange(NamedTuple):
    """The half-open range of key hashes that a segment owns."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Segment:
    """An append-only list of events.

    Attributes
    ----------
    number
        Unique in the stream.
    key_range
        What it owns of ``[0, 1)``; None on external logs.
    predecessors
        The segments that it continues.
    sealed_length
        How many events it holds for ever, or None while it may grow.
    opened_ms, sealed_ms
        Wall clock at which it was made and sealed; None where that was not kept. No part of what
        it is: two that differ in them alone are equal.
    """

    number: int
    key_range: KeyRange | None = None
    predecessors: tuple[int, ...] = ()
    sealed_length: int | None = None
    opened_ms: int | None = field(default=None, compare=False)
    sealed_ms: int | None = field(default=None, compare=False)


class Topology:
    """All segments of a stream, immutable; scaling makes a new one.

    Parameters
    ----------
    segments
        In any order.
    revision
        Rises by one with every change.
    known_before
        ``Ancestors.before`` of a topology that has the first of these segments, in the same order.

    Raises
    ------
    ValueError
        If a number is used twice, a predecessor is unknown or not sealed, or there is a cycle.
    """

    def __init__(
        self,
        segments: Iterable[Segment],
        *,
        revision: int = 0,
        known_before: Mapping[int, int] | None = None,
    ) -> None:
        listed = list(segments)
        self.segments: Mapping[int, Segment] = {segment.number: segment for segment in listed}
        self.revision = revision
        if len(self.segments) < len(listed):
            msg = f"a segment number is used twice: {[segment.number for segment in listed]}"
            raise ValueError(msg)
        self.in_order = self._sorted()
        self.has_history = any(segment.predecessors for segment in listed)
        self.ancestors = Ancestors(self.segments, self.in_order, known_before or {})
        """Every segment before each segment, direct and indirect."""

    @classmethod
    def of_equal_ranges(cls, count: int, opened_ms: int | None = None) -> Self:
        """Make the first topology of an embedded stream: ``count`` ranges of equal size."""
        edges = [number / count for number in range(count + 1)]
        ranges = [KeyRange(edges[n], edges[n + 1]) for n in range(count)]
        return cls(
            Segment(n, key_range, opened_ms=opened_ms) for n, key_range in enumerate(ranges)
        )

    @classmethod
    def of_partitions(cls, count: int, opened_ms: int | None = None) -> Self:
        """Make the topology of an external log: segments are its partitions."""
        return cls(Segment(number, opened_ms=opened_ms) for number in range(count))

    def __contains__(self, number: object) -> bool:
        return number in self.segments

    def __getitem__(self, number: int) -> Segment:
        return self.segments[number]

    def __repr__(self) -> str:
        return f"Topology({list(self.segments.values())!r}, revision={self.revision})"

    @cached_property
    def successors(self) -> Mapping[int, tuple[int, ...]]:
        """The segments that continue each segment."""
        successors: dict[int, tuple[int, ...]] = dict.fromkeys(self.segments, ())
        for number in self.in_order:
            for before in self.segments[number].predecessors:
                # Not a list: lists for thousands wake the garbage collector.
                successors[before] += (number,)
        return successors

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The segments that none continues."""
        return tuple(number for number, after in self.successors.items() if not after)

    @cached_property
    def decisive(self) -> Mapping[int, Collection[int]]:
        """The last segments with events before each segment.

        A down-set that has these to their ends has all before that segment. They are found once
        for a topology, since any number of empty ones may lie between.
        """
        decisive: dict[int, Collection[int]] = {}
        for number in self.in_order:
            direct = self.segments[number].predecessors
            if all(self.segments[before].sealed_length for before in direct):
                decisive[number] = direct
                continue
            last: set[int] = set()
            for before in direct:
                last.update(
                    [before] if self.segments[before].sealed_length else decisive[before]
                )
            passed = self.ancestors.of(last)
            decisive[number] = tuple(
                candidate for candidate in last if not self.ancestors.has(candidate, passed)
            )
        return decisive

    @cached_property
    def unsealed(self) -> tuple[int, ...]:
        """The segments that still grow, in order of their number."""
        return tuple(
            sorted(n for n, segment in self.segments.items() if segment.sealed_length is None)
        )

    @cached_property
    def endless(self) -> Mapping[int, int]:
        """The growing segments, each with the greatest offset that there is."""
        return dict.fromkeys(self.unsealed, GREATEST_OFFSET)

    @cached_property
    def full_before(self) -> Mapping[int, Position]:
        """What the ancestors of each growing segment hold, where there are events before it."""
        return {number: full for number in self.unsealed if (full := self.filled([number]))}

    def filled(self, numbers: Iterable[int]) -> Position:
        """Return what all ancestors of some segments hold, those with events."""
        return {
            before: length
            for before in self.ancestors.listed(self.ancestors.of(numbers))
            if (length := self.segments[before].sealed_length)
        }

    def route(self, key_hash: float) -> int:
        """Return the growing segment that owns a key.

        Raises
        ------
        LookupError
            If none does: an external log, or a sealed stream.
        """
        lows, numbers = self._routes
        at = bisect_right(lows, key_hash) - 1
        if at < 0:
            msg = f"no growing segment owns {key_hash}"
            raise LookupError(msg)
        return numbers[at]

    def scaled(
        self,
        seal: Mapping[int, int],
        segments: Iterable[Segment],
        *,
        now_ms: int | None = None,
    ) -> Self:
        """Seal some segments at their lengths and add the ones that continue them.

        ``now_ms`` is the wall clock at which that is done.
        """
        sealed = {
            number: replace(self.segments[number], sealed_length=length, sealed_ms=now_ms)
            for number, length in seal.items()
        }
        added = [replace(segment, opened_ms=now_ms) for segment in segments]
        return type(self)(
            [*({**self.segments, **sealed}).values(), *added],
            revision=self.revision + 1,
            known_before=self.ancestors.before,
        )

    def updated(self, segments: Iterable[Segment], revision: int) -> Self:
        """Add some segments of a topology that may be later, or earlier: what is sealed stays so.

        Raises
        ------
        ValueError
            If one continues a segment that is not known, or not known to be sealed.
        """
        known = dict(self.segments)
        for segment in segments:
            if segment.number not in known or known[segment.number].sealed_length is None:
                known[segment.number] = segment
        return type(self)(known.values(), revision=max(self.revision, revision))

    def with_roots(self, numbers: Iterable[int], *, now_ms: int | None = None) -> Self:
        """Add segments without predecessors: new partitions of an external log."""
        return self.scaled({}, [Segment(number) for number in numbers], now_ms=now_ms)

    @cached_property
    def _routes(self) -> tuple[list[float], list[int]]:
        ranged = sorted(
            (self.segments[number].key_range, number)
            for number in self.unsealed
            if self.segments[number].key_range is not None
        )
        return [owned.low for owned, _ in ranged if owned], [n for _, n in ranged]

    def _sorted(self) -> tuple[int, ...]:
        for segment in self.segments.values():
            for before in segment.predecessors:
                if before not in self.segments:
                    msg = f"segment {segment.number} continues {before}, which does not exist"
                    raise ValueError(msg)
                if self.segments[before].sealed_length is None:
                    msg = f"segment {segment.number} continues {before}, which is not sealed"
                    raise ValueError(msg)
        numbers = sorted(self.segments)
        if all(max(self.segments[n].predecessors, default=-1) < n for n in numbers):
            return tuple(
                numbers
            )  # as scaling numbers them: there is no circle, and no search for one
        graph = {n: segment.predecessors for n, segment in self.segments.items()}
        try:
            return tuple(TopologicalSorter(graph).static_order())
        except CycleError as error:
            msg = f"segments continue each other in a circle: {error.args[1]}"
            raise ValueError(msg) from error


class Ancestors:
    """What lies before each segment: a bit for each, since those of all would be its square.

    Parameters
    ----------
    segments, in_order
        Of the topology.
    known
        `before` of a topology that has the first of these segments.

    Attributes
    ----------
    before
        The bits of the ancestors of each segment that has any.
    """

    def __init__(
        self, segments: Mapping[int, Segment], in_order: Iterable[int], known: Mapping[int, int]
    ) -> None:
        self._numbers = tuple(segments)
        self._places = {number: place for place, number in enumerate(segments)}
        self.before: dict[int, int] = dict(known)
        for number in in_order:
            if number not in known:
                bits = 0
                for predecessor in segments[number].predecessors:
                    bits |= self.before.get(predecessor, 0) | 1 << self._places[predecessor]
                if bits:
                    self.before[number] = bits

    def of(self, numbers: Iterable[int]) -> int:
        """Return the ancestors of some segments, as bits."""
        bits = 0
        for number in numbers:
            bits |= self.before.get(number, 0)
        return bits

    def has(self, number: int, bits: int) -> bool:
        """Return whether a segment is one of those."""
        return bool(bits >> self._places[number] & 1)

    def listed(self, bits: int) -> Iterator[int]:
        """Return the segments of some bits."""
        return compress(self._numbers, map("1".__eq__, reversed(f"{bits:b}")))
