"""Rows of transactions and of what they staged. Every function runs in its caller's transaction."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import pyarrow as pa
from pyarrow import ipc
from sqlalchemy import Connection, Row, delete, select

from controller.log.transactions import Transaction
from controller.schema import finished_stagings, job_batches, staged_chunks, transactions
from controller.store.marks import load_position
from tidegauge.wire.columns import EVENT_SCHEMA
from tidegauge.wire.transactions import TransactionState

_LZ4 = ipc.IpcWriteOptions(compression="lz4")


class StagedEvents(NamedTuple):
    """Events of one append as they are staged: an IPC stream, whatever the format of chunks is."""

    rows: int
    size: int
    """In memory, bytes."""
    message: bytes

    @classmethod
    def of(cls, events: pa.RecordBatch) -> Self:
        """Encode events."""
        with pa.BufferOutputStream() as sink:
            with ipc.new_stream(sink, EVENT_SCHEMA, options=_LZ4) as stream:
                stream.write_batch(events)
            return cls(events.num_rows, events.nbytes, sink.getvalue().to_pybytes())


def read_transaction(
    connection: Connection, stream_key: int, transaction: str
) -> Transaction | None:
    """Look one up, whether it is open or not."""
    is_it = transactions.c.transaction_id == transaction
    row = connection.execute(
        select(transactions).where(transactions.c.stream_key == stream_key, is_it)
    ).first()
    return None if row is None else _transaction(row)


def read_open(connection: Connection, stream_key: int) -> list[Transaction]:
    """Read all that are open."""
    is_open = (transactions.c.stream_key == stream_key) & (transactions.c.state == "open")
    return [
        _transaction(row) for row in connection.execute(select(transactions).where(is_open))
    ]


def list_transactions(
    connection: Connection,
    stream_key: int,
    states: Sequence[TransactionState],
    *,
    after: str,
    limit: int,
) -> list[Transaction]:
    """List some, in order of id, after one; those in some states, or all."""
    query = select(transactions).where(
        transactions.c.stream_key == stream_key, transactions.c.transaction_id > after
    )
    if states:
        query = query.where(transactions.c.state.in_(states))
    rows = connection.execute(query.order_by(transactions.c.transaction_id).limit(limit))
    return [_transaction(row) for row in rows]


def _transaction(row: Row[Any]) -> Transaction:
    read = Transaction._make(row[1:])
    position = None if row.position is None else load_position(row.position)
    return read._replace(sequences=load_position(row.sequences), position=position)


def read_staged(
    connection: Connection, stream_key: int, ids: Iterable[str]
) -> tuple[pa.RecordBatch, list[int]]:
    """Read what transactions staged, one behind the other; tells how many chunks each has."""
    tables = [EVENT_SCHEMA.empty_table()]
    counts: list[int] = []
    for transaction in ids:
        of_it = staged_chunks.c.transaction_id == transaction
        rows = connection.execute(
            select(staged_chunks.c.data)
            .where(staged_chunks.c.stream_key == stream_key, of_it)
            .order_by(staged_chunks.c.ordinal)
        ).all()
        for row in rows:
            with ipc.open_stream(pa.py_buffer(row.data)) as stream:
                tables.append(stream.read_all())
        counts.append(len(rows))
    events = pa.concat_tables(tables).combine_chunks().to_batches()
    return events[0] if events else pa.RecordBatch.from_pylist([], EVENT_SCHEMA), counts


def clear_staged(connection: Connection, limit: int) -> bool:
    """Remove some of what a finished transaction staged; False if nothing is left.

    The race: other controllers do the same; each takes another transaction.
    """
    of_one = connection.execute(
        select(finished_stagings).limit(1).with_for_update(skip_locked=True)
    ).first()
    if of_one is None:
        return False
    of_it = (staged_chunks.c.stream_key == of_one.stream_key) & (
        staged_chunks.c.transaction_id == of_one.transaction_id
    )
    found = connection.execute(
        select(staged_chunks.c.ordinal).where(of_it).order_by("ordinal").limit(limit)
    ).all()
    if found:
        until = staged_chunks.c.ordinal <= found[-1].ordinal
        connection.execute(delete(staged_chunks).where(of_it, until))
    if len(found) < limit:
        connection.execute(
            delete(finished_stagings).where(
                finished_stagings.c.stream_key == of_one.stream_key,
                finished_stagings.c.transaction_id == of_one.transaction_id,
            )
        )
    return True


def has_finished_stagings(connection: Connection) -> bool:
    """Look whether anything is left to clear."""
    return connection.scalar(select(finished_stagings.c.stream_key).limit(1)) is not None


def forget_finished(connection: Connection, *, before_ms: int) -> None:
    """Forget the transactions that ended long ago, by wall clock."""
    connection.execute(delete(transactions).where(transactions.c.finished_ms < before_ms))


def read_batch_numbers(connection: Connection, stream_key: int) -> dict[str, int]:
    """Read the number of each job's last batch."""
    rows = connection.execute(select(job_batches).where(job_batches.c.stream_key == stream_key))
    return {row.writer: row.number for row in rows}
