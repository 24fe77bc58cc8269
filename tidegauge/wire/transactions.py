"""Messages about transactions and batches of jobs."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from tidegauge.wire.events import EventsAccepted
from tidegauge.wire.streams import NOT_ENDED, StreamFacts
from tidegauge.wire.values import (
    Answer,
    Between,
    EventTime,
    Incarnation,
    Integer,
    Name,
    Request,
    WirePosition,
)

TransactionState: TypeAlias = Literal["open", "committed", "aborted"]
DAY_MS = 86_400_000


class BeginTransaction(Request):
    """``POST {stream}/transactions``."""

    writer: Name = Field(
        description="Name of the writer; it must have registered or noted a time."
    )
    incarnation: Incarnation | None = Field(
        None,
        description="Incarnation from the registration; omitted by writers that never registered.",
    )
    timeout_ms: Annotated[Integer, Between(1_000, DAY_MS)] = Field(
        60_000,
        description="Lease, which every call renews: the transaction is aborted after this long without "
        "a call, ms of listening time.",
    )


class CommitTransaction(Request):
    """``POST …/transactions/{transaction}/commit``."""

    time: EventTime | None = Field(
        None,
        description="Time to note with the commit, ms: the writer promises to write nothing older "
        "afterwards.",
    )


class TransactionFacts(StreamFacts):
    """What every answer about a transaction says."""

    id: str = Field(description="Id of the transaction.")
    state: TransactionState = Field(description="Whether it is open, or how it ended.")


class TransactionBegun(TransactionFacts):
    """The answer to begin and ping."""

    expires_in_ms: int = Field(description="When its lease runs out without a call, ms.")


class EventsStaged(TransactionFacts, EventsAccepted):
    """The answer to a staged append."""

    sequence: int = Field(description="Newest sequence staged in this transaction and segment.")
    duplicate: bool = Field(description="Whether it had been staged before.")


class TransactionEnded(TransactionFacts):
    """The answer to commit and abort."""

    position: WirePosition | None = Field(
        None,
        description="Next offset of each segment that was written to; null if it is aborted.",
    )


class TransactionInfo(Answer):
    """One transaction."""

    id: str = Field(description="Id of the transaction.")
    writer: str = Field(description="Writer that began it.")
    incarnation: int = Field(
        description="Incarnation that began it; 0 if the writer never registered."
    )
    state: TransactionState = Field(description="Whether it is open, or how it ended.")
    timeout_ms: int = Field(description="Length of its lease, ms.")
    expires_in_ms: int | None = Field(
        description="When its lease runs out without a call, ms; null once it ended."
    )
    events: int = Field(description="Number of staged events.")
    size: int = Field(description="Size of the staged events, bytes.")
    position: WirePosition | None = Field(
        description="Next offset of each segment that it wrote to; null unless committed."
    )
    finished_ms: int | None = Field(description="When it ended, wall clock, ms.")


class TransactionDescription(TransactionInfo, StreamFacts):
    """``GET {stream}/transactions/{transaction}``."""


class TransactionList(StreamFacts):
    """``GET {stream}/transactions``."""

    transactions: list[TransactionInfo] = Field(description="In order of id.")
    cursor: str | None = Field(description="Where the next page starts; null on the last.")
    now_ms: int = Field(description="Wall clock of the service, ms.")


class BatchOfTransactions(Request):
    """``POST {stream}/batches/{number}``, of events that are staged already."""

    transactions: list[str] = Field(
        max_length=1_000,
        description="Open ones of the writer, published in this order: one for each winning task.",
    )


class BatchAppended(EventsAccepted):
    """The answer to a batch of a job."""

    duplicate: bool = Field(
        description="Whether this batch, or a later one, was stored before."
    )
    last: int = Field(description="The number of the writer's last batch.")
    position: WirePosition | None = Field(
        None, description="Next offset of each segment written to; null for a duplicate."
    )
    not_ended: list[str] = Field([], description=NOT_ENDED)
