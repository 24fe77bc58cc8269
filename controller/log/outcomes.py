"""What happens once: names, each with the outcome that a repeated call is answered with.

A name is an idempotency key, the id of a transaction, or the writer of a job, whose outcome is the
number of its last batch. An outcome is stored in the transaction of the database that stores the
events. Every function runs in its caller's transaction.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, select

from controller.schema import outcomes
from tidegauge.topology import Position
from tidegauge.wire.transactions import TransactionState


class KeyedAnswer(NamedTuple):
    """The append of an idempotency key."""

    fingerprint: str
    """Of the request, so that a key used for another one is found out."""
    position: Position
    """Next offset of each segment that was written to."""
    finished_ms: int
    """Wall clock."""


class Transaction(NamedTuple):
    """One transaction."""

    id: str
    writer: str
    incarnation: int
    timeout_ms: int
    deadline_ms: int
    """Listening time of the stream."""
    state: TransactionState = "open"
    chunks: int = 0
    events: int = 0
    size: int = 0
    """Of the events in memory, bytes."""
    sequences: Position = MappingProxyType({})
    """The newest by segment, or `ROUTED`."""
    position: Position | None = None
    """Next offset of each segment that the commit wrote to."""
    finished_ms: int | None = None
    """Wall clock."""

    def renewed(self, now_ms: int) -> "Transaction":
        """Return it with a lease that begins anew."""
        return self._replace(deadline_ms=now_ms + self.timeout_ms)


class LastBatch(NamedTuple):
    """The last batch of a job; it outlives what else is known of the writer."""

    number: int


Outcome = TypeVar("Outcome", KeyedAnswer, Transaction, LastBatch)
_KINDS = {KeyedAnswer: "key", Transaction: "transaction", LastBatch: "job"}
_encode = msgspec.json.Encoder(enc_hook=dict).encode  # read-only mappings are positions


def outcome_row(
    stream_key: int, name: str, outcome: KeyedAnswer | Transaction | LastBatch
) -> tuple[object, ...]:
    """Return the row of a name."""
    state = getattr(outcome, "state", None)
    finished_ms = getattr(outcome, "finished_ms", None)
    kind = _KINDS[type(outcome)]
    return stream_key, kind, name, state, _encode(outcome).decode(), finished_ms


def read_outcome(
    connection: Connection, stream_key: int, of: type[Outcome], name: str
) -> Outcome | None:
    """Return the outcome of a name, or None."""
    conditions = _is_kind(of), outcomes.c.name == name
    return _read(connection, stream_key, of, *conditions).get(name)


def read_last_batches(connection: Connection, stream_key: int) -> dict[str, LastBatch]:
    """Return the last batch of each job, by writer."""
    return _read(connection, stream_key, LastBatch, _is_kind(LastBatch))


def list_transactions(
    connection: Connection,
    stream_key: int,
    states: Sequence[TransactionState],
    *,
    after: str = "",
    limit: int | None = None,
) -> list[Transaction]:
    """Return transactions in order of id, after one; those in some states, or all."""
    conditions = [outcomes.c.name > after]
    if len(states) == 1:  # nothing else has one, and its index is in order of name
        conditions.append(outcomes.c.state == states[0])
    else:
        conditions.append(_is_kind(Transaction))
        if states:
            conditions.append(outcomes.c.state.in_(states))
    found = _read(connection, stream_key, Transaction, *conditions, limit=limit)
    return list(found.values())


def forget_outcomes(connection: Connection, *, before_ms: int) -> None:
    """Delete the outcomes of what ended long ago, by wall clock."""
    connection.execute(delete(outcomes).where(outcomes.c.finished_ms < before_ms))


def _is_kind(of: type[Outcome]) -> ColumnElement[bool]:
    return outcomes.c.kind == _KINDS[of]


def _read(
    connection: Connection,
    stream_key: int,
    of: type[Outcome],
    *conditions: ColumnElement[bool],
    limit: int | None = None,
) -> dict[str, Outcome]:
    query = select(outcomes.c.name, outcomes.c.outcome).where(
        outcomes.c.stream_key == stream_key, *conditions
    )
    rows = connection.execute(query.order_by(outcomes.c.name).limit(limit))
    return {row.name: msgspec.json.decode(row.outcome, type=of) for row in rows}
