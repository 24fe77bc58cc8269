"""The growing ends of a stream's segments, in memory, and the exactly-once rule of appends."""

from collections.abc import KeysView, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.log.codec import EncodedEvents
from tidegauge.errors import SequenceGapError
from tidegauge.topology import Position

_ANSWERS_IN_MEMORY = 10_000


class Chunk(NamedTuple):
    """Events of one segment as they are stored."""

    segment: int
    first_offset: int
    events: int
    running_time: int | None
    data: bytes


class LastAppend(NamedTuple):
    """What a writer last appended to a segment."""

    incarnation: int
    sequence: int
    next_offset: int


class KeyedAnswer(NamedTuple):
    """What an idempotency key stands for.

    Attributes
    ----------
    fingerprint
        Of the request, so that a key used for another one is found out.
    position
        The next offset of each segment that was written to.
    """

    fingerprint: str
    position: Position


class AppendOutcome(NamedTuple):
    """Where an append ended up."""

    next_offset: int
    sequence: int
    duplicate: bool


@dataclass(slots=True)
class SegmentEnds:
    """The ends of all segments of one stream.

    Attributes
    ----------
    tails
        Next offset of each segment.
    running_times
        The greatest event time of each segment so far, ms.
    last_appends
        By writer and segment, for exactly-once appends.
    """

    tails: dict[int, int] = field(default_factory=dict)
    running_times: dict[int, int | None] = field(default_factory=dict)
    last_appends: dict[tuple[str, int], LastAppend] = field(default_factory=dict)
    answered: dict[str, KeyedAnswer] = field(default_factory=dict)
    """By idempotency key: recent ones, so that two requests that race are told apart."""
    _segments_of: dict[str, set[int]] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    """Appended and not yet handed to a transaction."""
    sequences: dict[tuple[str, int], LastAppend] = field(default_factory=dict)
    """Changed and not yet handed to a transaction."""

    def __post_init__(self) -> None:
        for writer, segment in self.last_appends:
            self._segments_of.setdefault(writer, set()).add(segment)

    def append(self, segment: int, events: Sequence[EncodedEvents]) -> int:
        """Append events and return the next offset."""
        for chunk in events:
            first = self.tails[segment]
            times = (self.running_times.get(segment), chunk.greatest_time)
            running = max((time for time in times if time is not None), default=None)
            self.tails[segment] = first + chunk.rows
            self.running_times[segment] = running
            self.chunks.append(Chunk(segment, first, chunk.rows, running, chunk.message))
        return self.tails[segment]

    def append_once(
        self,
        segment: int,
        events: Sequence[EncodedEvents],
        *,
        writer: str,
        incarnation: int,
        sequence: int,
    ) -> AppendOutcome:
        """Append events unless this sequence number was stored before.

        Raises
        ------
        SequenceGapError
            If an earlier append of the writer is missing; nothing is appended.
        """
        last = self.last_append(writer, segment, incarnation)
        if sequence <= last.sequence:
            return AppendOutcome(last.next_offset, last.sequence, duplicate=True)
        if sequence > last.sequence + 1:
            raise SequenceGapError(writer, segment, sequence, last.sequence + 1)
        next_offset = self.append(segment, events)
        self.remember(writer, segment, LastAppend(incarnation, sequence, next_offset))
        return AppendOutcome(next_offset, sequence, duplicate=False)

    def last_append(self, writer: str, segment: int, incarnation: int) -> LastAppend:
        """Look up a writer's last append in an incarnation; sequence 0 if there is none."""
        last = self.last_appends.get((writer, segment))
        if last is None:
            return LastAppend(incarnation, 0, 0)
        return last if last.incarnation == incarnation else LastAppend(incarnation, 0, 0)

    @property
    def writers(self) -> KeysView[str]:
        """Names that appended, whether the stream knows them as writers or not."""
        return self._segments_of.keys()

    def newest_incarnation(self, writer: str) -> int:
        """Find the newest incarnation of a writer that appended; 0 if none did."""
        return max(
            (
                self.last_appends[writer, segment].incarnation
                for segment in self._segments_of.get(writer, ())
            ),
            default=0,
        )

    def remember(self, writer: str, segment: int, last: LastAppend) -> None:
        """Note what a writer appended last."""
        self.last_appends[writer, segment] = last
        self.sequences[writer, segment] = last
        self._segments_of.setdefault(writer, set()).add(segment)

    def remember_answer(self, key: str, answer: KeyedAnswer) -> None:
        """Note what an idempotency key stands for; older keys are found on disk."""
        self.answered[key] = answer
        if len(self.answered) > _ANSWERS_IN_MEMORY:
            del self.answered[next(iter(self.answered))]

    def appended_by(self, writer: str) -> Position:
        """Find how far a writer, in any incarnation, appended."""
        return {
            segment: self.last_appends[writer, segment].next_offset
            for segment in sorted(self._segments_of.get(writer, ()))
        }

    def forget(self, writer: str) -> None:
        """Forget a writer's sequences."""
        for segment in self._segments_of.pop(writer, ()):
            self.last_appends.pop((writer, segment), None)
            self.sequences.pop((writer, segment), None)

    def take_chunks(self) -> list[Chunk]:
        """Hand out the chunks to store."""
        chunks, self.chunks = self.chunks, []
        return chunks

    def take_sequences(self) -> dict[tuple[str, int], LastAppend]:
        """Hand out the sequences to store."""
        sequences, self.sequences = self.sequences, {}
        return sequences
