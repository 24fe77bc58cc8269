"""Transactions of the embedded log, and batches of jobs; decided inside a batch.

A commit is a routed append of what was staged, with the outcome in the same transaction of the
database. What was staged is read and routed before, off the event loop; if more was staged, or the
stream scaled, meanwhile, that is found out inside the batch.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar
from uuid import uuid4

import pyarrow as pa
from sqlalchemy import Connection

from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.database.statements import replace_rows
from controller.log import staging
from controller.log.embedded import EmbeddedLog
from controller.log.outcomes import LastBatch, Transaction, outcome_row, read_outcome
from controller.log.routing import RoutedEvents
from controller.log.staging import StagedEvents
from controller.log.transactions import ROUTED
from controller.schema import outcomes
from controller.streams import reports
from controller.streams.appends import (
    Source,
    append_routed,
    checked_incarnation,
    hint_of,
    route_now,
)
from controller.streams.stream import StreamState
from tidegauge.errors import (
    InvalidRequestError,
    StreamSealedError,
    TransactionFinishedError,
    UnavailableError,
    UnknownStreamSegmentError,
    UnknownTransactionError,
    UnknownWriterError,
)
from tidegauge.topology import Position
from tidegauge.wire.transactions import DAY_MS, BeginTransaction
from tidegauge.wire.writers import LeaveStream

_NO_BATCH = LastBatch(-1)
_Outcome = TypeVar("_Outcome")


class Staged(NamedTuple):
    """The outcome of a staged append."""

    sequence: int
    duplicate: bool
    hint: str | None = None


class Routed(NamedTuple):
    """Events to publish, and how many chunks were read of each transaction; None if nobody staged them."""

    events: RoutedEvents
    chunks: list[int] | None


class JobBatch(NamedTuple):
    """A batch of a job: its number, its writer, and whether what the job reads has ended."""

    number: int
    source: Source
    ended: bool

    @property
    def writer(self) -> str:
        """The job's name."""
        return self.source.writer or ""


class JobBatchOutcome(NamedTuple):
    """The outcome of a batch; without a position it was stored before."""

    last: int
    position: Position | None
    hint: str | None = None
    not_ended: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TransactionCalls:
    """The calls about the transactions of one stream, and about batches made of them."""

    sequencer: Sequencer
    database: Database
    state: StreamState

    async def begin(self, wanted: BeginTransaction) -> Transaction:
        """Begin one; the stream must know the writer."""
        await self._reap()
        return await self.sequencer.submit(partial(_begin, state=self.state, wanted=wanted))

    async def stage(
        self,
        transaction: str,
        events: StagedEvents,
        *,
        segment: int | None,
        sequence: int | None,
    ) -> Staged:
        """Keep events until the commit, exactly once for each sequence number."""
        stored = await self._find(transaction)

        def decide(batch: Batch) -> Staged:
            return _stage(batch, self.state, self._open(stored), events, segment, sequence)

        return await self.sequencer.submit(decide)

    async def ping(self, transaction: str) -> Transaction:
        """Renew the lease of one."""
        stored = await self._find(transaction)

        def decide(batch: Batch) -> Transaction:
            renewed = self._open(stored).renewed(self.state.listening_ms)
            self.state.embedded_log().transactions.put(renewed)
            batch.touch(self.state)
            return renewed

        return await self.sequencer.submit(decide)

    async def abort(self, transaction: str) -> Transaction:
        """Drop what was staged."""
        stored = await self._find(transaction)

        def decide(batch: Batch) -> Transaction:
            log, wall_ms = self.state.embedded_log(), self.state.now().wall_ms
            done = log.transactions.finish(self._open(stored), "aborted", wall_ms=wall_ms)
            batch.touch(self.state)
            return done

        return await self.sequencer.submit(decide)

    async def commit(self, transaction: str, time: int | None) -> Transaction:
        """Publish what was staged, all at once; committed already, it is what it was."""
        stored = await self._find(transaction)
        source = Source(stored.writer, stored.incarnation, time, of_its_own=True)
        return await self._until_unchanged(
            partial(self._read_staged, [transaction], stored.writer),
            partial(self._commit, transaction=stored, source=source),
        )

    async def append_batch(
        self, job: JobBatch, *, events: pa.RecordBatch | None, transactions: Sequence[str] = ()
    ) -> JobBatchOutcome:
        """Append a job's batch, of events or of transactions, unless it was stored before."""
        stored = [await self._find(transaction) for transaction in transactions]
        _check_named(stored, job)
        return await self._until_unchanged(
            partial(self._read_staged, transactions, job.writer)
            if events is None
            else partial(self._route, events, job.writer),
            partial(self._append_batch, job=job, transactions=stored),
        )

    async def _until_unchanged(
        self,
        read: Callable[[], Awaitable[Routed]],
        decide: Callable[[Routed, Batch], _Outcome | None],
    ) -> _Outcome:
        """Read and route, then decide in a batch.

        The race: more is staged after this was read, and was asked for before; or the stream scales.
        Then it is read and routed again: there may be more of it than the event loop has time for.
        """
        while True:
            outcome = await self.sequencer.submit(partial(decide, await read()))
            if outcome is not None:
                return outcome

    async def last_batch(self, writer: str) -> int:
        """Return the number of a job's last batch; below 0 if there is none."""
        return await self.sequencer.read(partial(self._last_batch, writer))

    def _last_batch(self, writer: str) -> int:
        return self.state.embedded_log().last_batches.get(writer, _NO_BATCH).number

    def _commit(
        self,
        routed: Routed,
        batch: Batch,
        *,
        transaction: Transaction,
        source: Source,
    ) -> Transaction | None:
        """Commit inside a batch, unless it was committed before; None as in `_publish`.

        The race: it is repeated while the first commit is on its way to the disk. Only a batch
        knows what became of that.
        """
        newest = self.state.embedded_log().transactions.find(transaction.id) or transaction
        if newest.state == "committed":
            return newest
        if self._publish(batch, [newest], routed, source) is None:
            return None
        return self.state.embedded_log().transactions.find(transaction.id)

    def _append_batch(
        self,
        routed: Routed,
        batch: Batch,
        *,
        job: JobBatch,
        transactions: Sequence[Transaction],
    ) -> JobBatchOutcome | None:
        """Append, note and end, unless it was stored before; None as in `_publish`."""
        log, aggregator, writer = self.state.embedded_log(), self.state.aggregator, job.writer
        last = self._last_batch(writer)
        if job.number <= last:
            return JobBatchOutcome(last, None)
        appended = log.appended_by(writer)
        position = self._publish(batch, transactions, routed, job.source)
        if position is None:
            return None
        # Nothing is refused after this, so that a batch is stored with all that belongs to it, or not
        # at all. If the source noted a time, its report has made the writer known already.
        if writer not in aggregator:
            incarnation = job.source.incarnation or 0
            aggregator.introduce(writer, incarnation, appended=appended, now=self.state.now())
        done = log.last_batches[writer] = LastBatch(job.number)
        rows = [outcome_row(self.state.identity.key, writer, done)]
        batch.write(partial(replace_rows, table=outcomes, rows=rows))
        hint, not_ended = hint_of(self.state, routed.events.times, writer), list[str]()
        if job.ended:
            last_report = LeaveStream(incarnation=aggregator.incarnation(writer), ended=True)
            _, not_ended = reports.leave(batch, self.state, writer, last_report)
        return JobBatchOutcome(job.number, position, hint, not_ended)

    def _publish(
        self,
        batch: Batch,
        transactions: Sequence[Transaction],
        routed: Routed,
        source: Source,
    ) -> Position | None:
        """Append events, and commit the transactions that staged them; None if these changed.

        They changed if more was staged than was read, or the stream scaled.
        """
        named = [self._open(transaction) for transaction in transactions]
        events, chunks = routed
        has_scaled = events.topology_revision != self.state.aggregator.topology.revision
        if chunks is not None and (
            has_scaled or chunks != [transaction.chunks for transaction in named]
        ):
            return None
        position = append_routed(batch, self.state, events, source)
        log, wall_ms = self.state.embedded_log(), self.state.now().wall_ms
        for transaction in named:
            log.transactions.finish(
                transaction, "committed", wall_ms=wall_ms, position=position
            )
        return position

    async def find(self, transaction: str) -> Transaction:
        """Read one from disk."""
        self.state.embedded_log()
        read = partial(
            read_outcome,
            stream_key=self.state.identity.key,
            of=Transaction,
            name=transaction,
        )
        return self._known(transaction, await self.database.read(read))

    async def _find(self, transaction: str) -> Transaction:
        """Find one, in memory first, once those are aborted whose leases have run out.

        The race: a call and the end of the lease. A call that came in time renews it.
        """
        await self._reap()
        in_memory = self.state.embedded_log().transactions.find(transaction)
        if in_memory is not None:
            return self._known(transaction, in_memory)
        return await self.find(transaction)

    def _known(self, transaction: str, stored: Transaction | None) -> Transaction:
        ended_ms = None if stored is None else stored.finished_ms
        is_old = ended_ms is not None and self.state.now().wall_ms - ended_ms >= DAY_MS
        if stored is None or is_old:
            raise UnknownTransactionError(transaction)
        return stored

    def _open(self, transaction: Transaction) -> Transaction:
        """Refuse what is finished, and zombies; inside a batch."""
        log = self.state.embedded_log()
        newest = log.transactions.find(transaction.id) or transaction
        if newest.state != "open":
            raise TransactionFinishedError(newest.id, newest.state)
        if newest.id not in log.transactions.open:  # many were finished since it was found
            reason = f"transaction {newest.id} has changed"
            raise UnavailableError(reason)
        checked_incarnation(self.state, log, newest.writer, newest.incarnation)
        return newest

    async def _reap(self) -> None:
        if self.state.embedded_log().transactions.run_out(self.state.listening_ms):
            await self.sequencer.submit(partial(reap, state=self.state))

    async def _read_staged(self, transactions: Sequence[str], writer: str) -> Routed:
        """Read and route what was staged, in a thread of the database's readers."""
        key, wall_ms = self.state.identity.key, self.state.now().wall_ms

        def read(connection: Connection) -> Routed:
            events, chunks = staging.read_staged(connection, key, transactions)
            routed = route_now(self.state, events, writer=writer, append_time=wall_ms)
            return Routed(routed, chunks)

        return await self.database.read(read)

    async def _route(self, events: pa.RecordBatch, writer: str) -> Routed:
        """Route events that nobody staged."""
        append_time = self.state.now().wall_ms
        routing = partial(route_now, writer=writer, append_time=append_time)
        return Routed(await asyncio.to_thread(routing, self.state, events), None)


def reap(batch: Batch, state: StreamState) -> None:
    """Abort the transactions whose leases have run out."""
    if state.deleted or not isinstance(state.log, EmbeddedLog):
        return
    for transaction in state.log.transactions.run_out(state.listening_ms):
        state.log.transactions.finish(transaction, "aborted", wall_ms=state.now().wall_ms)
    batch.touch(state)


def _begin(batch: Batch, state: StreamState, wanted: BeginTransaction) -> Transaction:
    log, name = state.embedded_log(), str(state.identity.name)
    if state.aggregator.final:
        raise StreamSealedError(name)
    if wanted.writer not in state.aggregator:
        raise UnknownWriterError(wanted.writer)
    incarnation = checked_incarnation(state, log, wanted.writer, wanted.incarnation)
    state.limits.check_new_transaction(name, log.transactions.open)
    deadline_ms = state.listening_ms + wanted.timeout_ms
    begun = Transaction(
        str(uuid4()), wanted.writer, incarnation, wanted.timeout_ms, deadline_ms
    )
    log.transactions.put(begun)
    batch.touch(state)
    return begun


def _stage(
    batch: Batch,
    state: StreamState,
    transaction: Transaction,
    events: StagedEvents,
    segment: int | None,
    sequence: int | None,
) -> Staged:
    if segment is not None and segment not in state.aggregator.topology:
        raise UnknownStreamSegmentError(segment)
    log, counted_in = state.embedded_log(), ROUTED if segment is None else segment
    last = transaction.sequences.get(counted_in, 0)
    renewed = transaction.renewed(state.listening_ms)
    if sequence is not None and sequence <= last:
        log.transactions.put(renewed)
        batch.touch(state)
        return Staged(last, duplicate=True)
    events.times.check()
    size = transaction.size + events.size
    state.limits.check_transaction_size(transaction.id, size)
    counting = renewed._replace(events=transaction.events + events.rows, size=size)
    log.transactions.stage(counting, counted_in, sequence or last + 1, events.message)
    batch.touch(state)
    hint = hint_of(state, events.times, transaction.writer)
    return Staged(sequence or last + 1, duplicate=False, hint=hint)


def _check_named(named: Sequence[Transaction], job: JobBatch) -> None:
    """Refuse transactions of others, and one that is named twice."""
    for transaction in named:
        if transaction.writer != job.writer:
            problem = f"{transaction.id} is of writer {transaction.writer!r}"
            reason = f"{problem}; name those of {job.writer!r}"
            raise InvalidRequestError.of("transactions", reason)
    if len({transaction.id for transaction in named}) < len(named):
        raise InvalidRequestError.of("transactions", "one is named twice; name each once")
