"""What happens once: names, each with the outcome that a repeated call is answered with.

A name is an idempotency key, the id of a transaction, or the writer of a job, whose outcome is the
number of its last batch. An outcome is stored in the transaction of the database that stores the
events. Every function runs in its caller's transaction.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, Select, delete, select

from controller.schema import outcomes
from tidegauge.topology import Position
from tidegauge.wire.transactions import TransactionState


class KeyedAnswer(NamedTuple):
    """What an idempotency key stands for."""

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
    found = _decoded(connection, _select(stream_key, of).where(outcomes.c.name == name), of)
    return found.get(name)


def read_last_batches(connection: Connection, stream_key: int) -> dict[str, LastBatch]:
    """Return the last batch of each job, by writer."""
    return _decoded(connection, _select(stream_key, LastBatch), LastBatch)


def read_open(connection: Connection, stream_key: int) -> list[Transaction]:
    """Return the transactions that are open."""
    query = _select(stream_key, Transaction).where(outcomes.c.state == "open")
    return [*_decoded(connection, query, Transaction).values()]


def list_transactions(
    connection: Connection,
    stream_key: int,
    states: Sequence[TransactionState],
    *,
    after: str,
    limit: int,
) -> list[Transaction]:
    """Return some transactions in order of id, after one; those in some states, or all."""
    query = _select(stream_key, Transaction).where(outcomes.c.name > after)
    if states:
        query = query.where(outcomes.c.state.in_(states))
    query = query.order_by(outcomes.c.name).limit(limit)
    return [*_decoded(connection, query, Transaction).values()]


def forget_outcomes(connection: Connection, *, before_ms: int) -> None:
    """Delete the outcomes of what ended long ago, by wall clock."""
    connection.execute(delete(outcomes).where(outcomes.c.finished_ms < before_ms))


def _select(stream_key: int, of: type[Outcome]) -> Select[tuple[str, str]]:
    return select(outcomes.c.name, outcomes.c.outcome).where(
        outcomes.c.stream_key == stream_key, outcomes.c.kind == _KINDS[of]
    )


def _decoded(
    connection: Connection, query: Select[tuple[str, str]], of: type[Outcome]
) -> dict[str, Outcome]:
    return {
        row.name: msgspec.json.decode(row.outcome, type=of) for row in connection.execute(query)
    }
