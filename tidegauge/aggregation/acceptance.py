"""Which reports are accepted: the checks of section 2 of the rules, in their order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegauge.aggregation.intake import Bounds
from tidegauge.aggregation.writers import Now, Writer
from tidegauge.errors import (
    IncarnationRequiredError,
    InvalidPositionError,
    InvalidRequestError,
    InvalidTimeError,
    StreamSealedError,
    TimeInFutureError,
    WriterFencedError,
)
from tidegauge.event_time import END_OF_TIME, FIRST_TIME
from tidegauge.lattice import down_set, includes
from tidegauge.topology import Position, Topology

GREATEST_NAMED_INCARNATION = 2**62
_NOTHING = Bounds({}, {}, FIRST_TIME, END_OF_TIME)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a report is checked against besides the writer's record.

    Attributes
    ----------
    stream
        Its name, for messages.
    sealed
        Whether it takes no more reports.
    topology
        Its segments.
    max_future_skew_ms
        How far a time may be ahead of it; None for logical time.
    """

    stream: str
    sealed: bool
    topology: Topology
    max_future_skew_ms: int | None

    def check(
        self,
        name: str,
        record: Writer | None,
        *,
        time: int,
        position: Position,
        incarnation: int | None,
        wall_ms: int,
        tails: Position | None,
    ) -> Position:
        """Return the down-set of an acceptable report's position, or raise its refusal.

        Appended lengths, ``tails``, bound the position where they are known.
        """
        if self.sealed:
            raise StreamSealedError(self.stream)
        stored = 0 if record is None else record.life.incarnation
        check_incarnation(name, stored, incarnation)
        if incarnation is not None and incarnation > stored:
            record = None
        self._check_order(name, record, time)
        counts = self._counts(record, position, tails)
        self._check_future(time, wall_ms)
        return counts

    def bounds(self, wall_ms: int, tails: Position | None, watermark: int | None) -> Bounds:
        """Return what is acceptable without further checks: nothing if the stream is sealed."""
        if self.sealed:
            return _NOTHING
        latest = END_OF_TIME - 1
        if self.max_future_skew_ms is not None:
            latest = min(latest, wall_ms + self.max_future_skew_ms)
        return Bounds(self._greatest(tails), self.topology.full_before, latest, watermark)

    def refuse_if_sealed(self) -> None:
        """Raise `StreamSealedError` if nothing is taken any more."""
        if self.sealed:
            raise StreamSealedError(self.stream)

    def check_first_time(self, name: str, time: int, wall_ms: int) -> None:
        """Refuse a time that no first report may carry."""
        self._check_order(name, None, time)
        self._check_future(time, wall_ms)

    def _check_order(self, name: str, record: Writer | None, time: int) -> None:
        stored = None if record is None else record.noted.time
        if time >= END_OF_TIME or (stored is not None and time < stored):
            raise InvalidTimeError(name, time, stored)

    def _check_future(self, time: int, wall_ms: int) -> None:
        skew = self.max_future_skew_ms
        if skew is not None and time > wall_ms + skew:
            raise TimeInFutureError(time, wall_ms, skew)

    def _greatest(self, tails: Position | None) -> Position:
        """Return the greatest offsets that may be named, of the segments that grow."""
        if tails is None:
            return self.topology.endless
        if not self.topology.has_history:
            return tails
        return {number: tails.get(number, 0) for number in self.topology.unsealed}

    def _counts(
        self, record: Writer | None, position: Position, tails: Position | None
    ) -> Position:
        stored: Position = {} if record is None else record.noted.position
        greatest, ancestors = self._greatest(tails), self.topology.full_before
        for number, offset in position.items():
            before = stored.get(number, 0)
            if not before <= offset <= greatest.get(number, -1) or (
                # Positions are down-sets: with events of a segment go all of its ancestors.
                before == 0 and number in ancestors and not includes(stored, ancestors[number])
            ):
                return self._checked_counts(position, stored, tails)
        return position

    def _checked_counts(
        self, position: Position, stored: Position, tails: Position | None
    ) -> Position:
        """Return what a position means, or raise what is wrong with it."""
        for number, offset in position.items():
            reason = self._flaw(number, offset, tails)
            if reason is not None:
                raise InvalidPositionError(number, offset, reason, stored)
        counts = down_set(self.topology, position)
        for number in position:
            if counts.get(number, 0) < stored.get(number, 0):
                reason = f"the writer reported {stored[number]} before"
                raise InvalidPositionError(number, position[number], reason, stored)
        return counts

    def _flaw(self, number: int, offset: int, tails: Position | None) -> str | None:
        segment = self.topology.segments.get(number)
        if segment is None:
            return "there is no such segment"
        if offset < 0:
            return "offsets are not negative"
        if segment.sealed_length is not None and offset > segment.sealed_length:
            return f"it is sealed at {segment.sealed_length}"
        if tails is not None and offset > tails.get(number, 0):
            return f"only {tails.get(number, 0)} events were appended"
        return None


def check_incarnation(name: str, stored: int, given: int | None) -> None:
    """Refuse a writer that does not name its incarnation although it has one, or names an old one.

    A newer one may be named, but not one that leaves no numbers for registrations after it.
    """
    if given is None:
        if stored > 0:
            raise IncarnationRequiredError(name, stored)
    elif given < stored:
        raise WriterFencedError(name, stored)
    elif given > stored and given > GREATEST_NAMED_INCARNATION:
        reason = f"{given} was never given out; register, and send the answer's"
        raise InvalidRequestError.of("incarnation", reason)


def sealed_topology(
    topology: Topology, lengths: Position, writers: Iterable[Writer], cut: Position, now: Now
) -> Topology:
    """Seal every growing segment at its length.

    ``cut`` is that of the newest mark: writers that it covers may be forgotten.

    Raises
    ------
    InvalidPositionError
        If a length is missing or negative, or the cut or a writer is beyond it.
    """
    reported = reached_by(writers, cut)
    for number in lengths:
        if number not in topology.unsealed:
            reason = "there is no such growing segment"
            raise InvalidPositionError(number, lengths[number], reason, reported)
    for number in topology.unsealed:
        least = reported.get(number, 0)
        if lengths.get(number, -1) < least:
            reason = f"the end must be given, and writers reported {least}"
            raise InvalidPositionError(number, lengths.get(number, -1), reason, reported)
    seal = {n: lengths[n] for n in topology.unsealed}
    return topology.scaled(seal, [], now_ms=now.wall_ms)


def reached_by(writers: Iterable[Writer], cut: Position) -> dict[int, int]:
    """Return the offsets that writers reported, former incarnations included, and a cut has."""
    reached: dict[int, int] = dict(cut)
    for writer in writers:
        _raise_to_maximum(reached, writer.noted.position)
        _raise_to_maximum(reached, writer.noted.former_position)
    return reached


def _raise_to_maximum(counts: dict[int, int], position: Mapping[int, int]) -> None:
    for number, offset in position.items():
        counts[number] = max(offset, counts.get(number, 0))
