"""The embedded log of a stream in memory: what it decides is stored with the transaction at hand."""

from collections.abc import Iterable, KeysView, Sequence
from dataclasses import dataclass, field
from typing import Self

from sqlalchemy import Connection

from controller.commit.batch import Batch, rows_of
from controller.log import storage
from controller.log.codec import EncodedEvents
from controller.log.outcomes import KeyedAnswer, LastBatch, list_transactions, read_last_batches
from controller.log.storage import AppendOutcome, Chunk, LastAppend
from controller.log.transactions import Transactions
from controller.store.truncation import Truncation
from tidegauge.errors import InvalidPositionError, SequenceGapError
from tidegauge.lattice import DownSet, down_set
from tidegauge.topology import Position, Topology

_ANSWERS_IN_MEMORY = 10_000
"""Of each stream: as many idempotency keys as may race; older ones are read from disk."""


@dataclass(slots=True)
class EmbeddedLog:
    """The log of a stream that the service stores: where segments end, and what writers appended last."""

    tails: dict[int, int] = field(default_factory=dict)
    """Next offset of each segment."""
    first: DownSet = field(default_factory=dict)
    """How many events of each segment are truncated; what is stored."""
    running_times: dict[int, int | None] = field(default_factory=dict)
    """The greatest event time of each segment so far, ms."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Bytes appended to each segment since the log was read, as they are stored."""
    last_appends: dict[tuple[str, int], LastAppend] = field(default_factory=dict)
    """By writer and segment, for exactly-once appends."""
    answered: dict[str, KeyedAnswer] = field(default_factory=dict)
    """By idempotency key: recent ones, for two requests with one key that race."""
    transactions: Transactions = field(default_factory=Transactions)
    last_batches: dict[str, LastBatch] = field(default_factory=dict)
    """Of each job, by writer."""
    _segments_of: dict[str, set[int]] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    """Appended and not yet handed to a transaction."""
    sequences: dict[tuple[str, int], LastAppend] = field(default_factory=dict)
    """Changed and not yet handed to a transaction."""

    def __post_init__(self) -> None:
        for writer, segment in self.last_appends:
            self._segments_of.setdefault(writer, set()).add(segment)

    @classmethod
    def read(
        cls,
        connection: Connection,
        stream_key: int,
        topology: Topology,
        truncation: Truncation,
    ) -> Self:
        """Read the ends of a stream's segments, and what is appended once.

        Where all chunks of a segment are truncated, it ends where it begins.
        """
        ends, first = storage.read_ends(connection, stream_key), {}
        if truncation.cut:
            first = down_set(topology, truncation.cut)
        tails = {number: first.get(number, 0) for number in sorted(topology.segments)}
        running_times = dict(truncation.running_times)
        for segment, (tail, running_time) in ends.items():
            tails[segment], running_times[segment] = tail, running_time
        last_appends = storage.read_last_appends(connection, stream_key)
        log = cls(tails, first, running_times, last_appends=last_appends)
        log.transactions.restore(list_transactions(connection, stream_key, ["open"]))
        log.last_batches = read_last_batches(connection, stream_key)
        return log

    def position_of(
        self, position: Position | None, tails: Position | None, growing: Iterable[int]
    ) -> Position:
        """Return the position of a report; the tails if it has none: the writer appended all of it.

        Those of what grows: they mean all that was sealed, too, which may be thousands.
        """
        if position is not None:
            return position
        ends = tails or self.tails
        return {segment: ends[segment] for segment in growing}

    def end(self, topology: Topology, position: Position | None) -> Position:
        """Return the tails, which a caller need not know; if it names them, they must agree."""
        tails = {number: self.tails[number] for number in topology.unsealed}
        for number, offset in (position or {}).items():
            if offset != tails.get(number):
                reason = f"the end of an embedded segment is its tail, {tails.get(number)}"
                raise InvalidPositionError(number, offset, reason, tails)
        return tails

    def begin(self, segments: Iterable[int]) -> None:
        """Add new segments, which grow."""
        self.tails |= dict.fromkeys(segments, 0)

    def append(self, segment: int, events: Sequence[EncodedEvents]) -> int:
        """Append events and return the next offset."""
        for chunk in events:
            first = self.tails[segment]
            times = (self.running_times.get(segment), chunk.greatest_time)
            running = max((time for time in times if time is not None), default=None)
            self.tails[segment] = first + chunk.rows
            self.running_times[segment] = running
            self.sizes[segment] = self.sizes.get(segment, 0) + len(chunk.message)
            self.chunks.append(
                Chunk(segment, first, chunk.rows, running, chunk.message, chunk.append_time)
            )
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
        """Append events unless this sequence number was stored before, or leaves a gap."""
        last = self.last_append(writer, segment, incarnation)
        if sequence <= last.sequence:
            return AppendOutcome(last.next_offset, last.sequence, duplicate=True)
        if sequence > last.sequence + 1:
            raise SequenceGapError(writer, segment, sequence, last.sequence + 1)
        next_offset = self.append(segment, events)
        self.remember(writer, segment, LastAppend(incarnation, sequence, next_offset))
        return AppendOutcome(next_offset, sequence, duplicate=False)

    def last_append(self, writer: str, segment: int, incarnation: int) -> LastAppend:
        """Return a writer's last append in an incarnation; sequence 0 if there is none."""
        last = self.last_appends.get((writer, segment))
        if last is None or last.incarnation != incarnation:
            return LastAppend(incarnation, 0, 0)
        return last

    @property
    def writers(self) -> KeysView[str]:
        """Names that appended, whether the stream knows them as writers or not."""
        return self._segments_of.keys()

    def newest_incarnation(self, writer: str) -> int:
        """Return the newest incarnation of a writer that appended, or staged; 0 if none did."""
        segments = self._segments_of.get(writer, ())
        newest = self.transactions.newest_incarnation(writer)
        return max(newest, *(self.last_appends[writer, one].incarnation for one in segments), 0)

    def remember(self, writer: str, segment: int, last: LastAppend) -> None:
        """Record what a writer appended last."""
        self.last_appends[writer, segment] = last
        self.sequences[writer, segment] = last
        self._segments_of.setdefault(writer, set()).add(segment)

    def remember_answer(self, key: str, answer: KeyedAnswer) -> None:
        """Record the append of an idempotency key; older keys are found on disk."""
        self.answered[key] = answer
        if len(self.answered) > _ANSWERS_IN_MEMORY:
            del self.answered[next(iter(self.answered))]

    def appended_by(self, writer: str) -> Position:
        """Return how far a writer, in any incarnation, appended."""
        return {
            segment: self.last_appends[writer, segment].next_offset
            for segment in sorted(self._segments_of.get(writer, ()))
        }

    def abort_transactions(self, writer: str, *, wall_ms: int) -> None:
        """Abort what a writer has open."""
        self.transactions.abort_of(writer, wall_ms=wall_ms)

    def forget(self, writer: str) -> None:
        """Forget a writer's sequences."""
        for segment in self._segments_of.pop(writer, ()):
            self.last_appends.pop((writer, segment), None)
            self.sequences.pop((writer, segment), None)

    def write(self, batch: Batch, stream_key: int, forgotten: list[str]) -> None:
        """Add what was appended since the last transaction, and which writers are forgotten."""
        if forgotten:
            batch.write(
                lambda connection: storage.forget_sequences(connection, stream_key, forgotten)
            )
        self.transactions.write(batch, stream_key)
        chunks, self.chunks = self.chunks, []
        sequences, self.sequences = self.sequences, {}
        if chunks or sequences:
            batch.write(
                lambda connection: storage.write_appends(
                    connection, stream_key, chunks, sequences
                ),
                rows=len(sequences) + sum(rows_of(one.data) for one in chunks),
            )
