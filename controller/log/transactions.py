"""Transactions of a stream in memory: those that are open, and those that were a moment ago.

::

    open ──commit──▶ committed ──24 h──▶ unknown
     └─abort, register, leave, seal, end of the lease──▶ aborted ──24 h──▶ unknown

What they stage is written at once and read back at their commit. Deadlines are listening time of
the stream, so that neither a restart nor another holder changes them.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlalchemy import Connection

from controller.commit.batch import Batch, rows_of
from controller.database.statements import insert_rows, replace_rows
from controller.log.outcomes import Transaction, outcome_row
from controller.schema import finished_stagings, outcomes, staged_chunks
from tidegauge.errors import SequenceGapError
from tidegauge.topology import Position
from tidegauge.wire.transactions import TransactionState

_FINISHED_IN_MEMORY = 1_000
"""Of each stream: as many as may end between a read from disk and the batch after it."""
ROUTED = -1
"""Counts as a segment where sequences are counted: of what is staged without naming one."""


@dataclass(slots=True)
class Transactions:
    """The transactions of one stream."""

    open: dict[str, Transaction] = field(default_factory=dict)
    _finished: dict[str, Transaction] = field(default_factory=dict)
    _of: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Ids of open ones by writer."""
    _incarnations: dict[str, int] = field(default_factory=dict)
    """The newest that began one, of writers that have any open: every append reads it."""
    _changed: dict[str, Transaction] = field(default_factory=dict)
    """Not yet handed to a database's transaction, as the rest."""
    _staged: list[tuple[str, int, bytes]] = field(default_factory=list)
    _cleared: list[str] = field(default_factory=list)

    def restore(self, open_ones: Iterable[Transaction]) -> None:
        """Add the transactions that are stored as open."""
        for one in open_ones:
            self._keep(one)

    def find(self, transaction: str) -> Transaction | None:
        """Return one that is open, or was a moment ago."""
        return self.open.get(transaction) or self._finished.get(transaction)

    def newest_incarnation(self, writer: str) -> int:
        """Return the newest incarnation of a writer that has one open; 0 if none has."""
        return self._incarnations.get(writer, 0)

    def put(self, transaction: Transaction) -> None:
        """Begin one, or go on with one that changed."""
        self._changed[transaction.id] = transaction
        self._keep(transaction)

    def _keep(self, one: Transaction) -> None:
        self.open[one.id] = one
        self._of[one.writer].add(one.id)
        newest = max(one.incarnation, self.newest_incarnation(one.writer))
        self._incarnations[one.writer] = newest

    def stage(
        self, transaction: Transaction, segment: int, sequence: int, message: bytes
    ) -> None:
        """Keep events until the commit; ``transaction`` counts them already."""
        last = transaction.sequences.get(segment, 0)
        if sequence > last + 1:
            raise SequenceGapError(transaction.writer, segment, sequence, last + 1)
        self._staged.append((transaction.id, transaction.chunks, message))
        sequences = {**transaction.sequences, segment: sequence}
        self.put(transaction._replace(chunks=transaction.chunks + 1, sequences=sequences))

    def finish(
        self,
        transaction: Transaction,
        state: TransactionState,
        *,
        wall_ms: int,
        position: Position | None = None,
    ) -> Transaction:
        """End one; what it staged is removed bit by bit."""
        done = transaction._replace(state=state, finished_ms=wall_ms, position=position)
        del self.open[done.id]
        self._of[done.writer].discard(done.id)
        if not self._of[done.writer]:
            del self._of[done.writer], self._incarnations[done.writer]
        self._changed[done.id] = self._finished[done.id] = done
        if len(self._finished) > _FINISHED_IN_MEMORY:
            del self._finished[next(iter(self._finished))]
        if done.chunks:
            self._cleared.append(done.id)
        return done

    def abort_of(self, writer: str, *, wall_ms: int) -> None:
        """Abort all of a writer."""
        for one in sorted(self._of.get(writer, ())):
            self.finish(self.open[one], "aborted", wall_ms=wall_ms)

    def abort_all(self, *, wall_ms: int) -> None:
        """Abort all: the stream ends."""
        for one in list(self.open.values()):
            self.finish(one, "aborted", wall_ms=wall_ms)

    def run_out(self, now_ms: int) -> list[Transaction]:
        """List those whose leases have run out, by listening time of the stream."""
        return [one for one in self.open.values() if one.deadline_ms <= now_ms]

    def write(self, batch: Batch, stream_key: int) -> None:
        """Add what changed to a database's transaction."""
        changed, staged, cleared = self._changed, self._staged, self._cleared
        if not changed:
            return
        self._changed, self._staged, self._cleared = {}, [], []

        def work(connection: Connection) -> None:
            rows = [outcome_row(stream_key, name, one) for name, one in changed.items()]
            replace_rows(connection, outcomes, rows)
            insert_rows(connection, staged_chunks, [(stream_key, *one) for one in staged])
            insert_rows(connection, finished_stagings, [(stream_key, one) for one in cleared])

        sizes = sum(rows_of(message) for _, _, message in staged)
        batch.write(work, rows=len(changed) + len(cleared) + sizes)
