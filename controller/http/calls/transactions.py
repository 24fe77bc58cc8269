"""Calls about transactions, and batches of jobs."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import pyarrow as pa
from fastapi import Depends, Header, Path, Query, Request

from controller.access.callers import Role
from controller.http import routing
from controller.http.calls.events import (
    ARROW_BODY,
    NDJSON_BODY,
    ONE,
    read_aside,
    read_body,
    read_time,
)
from controller.http.calls.reporting import ReportingRoute
from controller.http.messages.decoding import read_request
from controller.http.messages.headers import JSON, has_media_type
from controller.log.codec import read_arrow
from controller.log.ndjson import read_ndjson
from controller.log.outcomes import Transaction
from controller.log.outcomes import list_transactions as read_transactions
from controller.log.staging import StagedEvents
from controller.streams.appends import Source
from controller.streams.stream import StreamState
from controller.streams.transactions import JobBatch, TransactionCalls
from tidegauge.wire import events as event_wire
from tidegauge.wire import transactions as wire
from tidegauge.wire.values import Between, Incarnation, Integer, Name

router = routing.router_of("transactions")
reporting = routing.router_of("transactions", ReportingRoute)
ALL = ONE + "/transactions"
ANY = ALL + "/{transaction}"

_Sequence = Annotated[Integer, Between(1)]

_BATCH_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            **ARROW_BODY["requestBody"]["content"],  # type: ignore[dict-item] # a dict of dicts
            JSON: {"schema": wire.BatchOfTransactions.model_json_schema()},
        },
    }
}


async def get_calls(
    sequencer: routing.SequencerOf, database: routing.DatabaseOf, state: routing.StreamOf
) -> TransactionCalls:
    """Return the calls about transactions of the stream that a path names."""
    return TransactionCalls(sequencer, database, state)


CallsOf = Annotated[TransactionCalls, Depends(get_calls)]


@router.post(ALL, status_code=201)
async def begin(calls: CallsOf, wanted: wire.BeginTransaction) -> wire.TransactionBegun:
    """Begin a transaction: what it stages is not seen before its commit."""
    return _lease(calls.state, await calls.begin(wanted))


@router.post(ANY + "/segments/{segment}/events", openapi_extra=ARROW_BODY)
async def stage(
    calls: CallsOf,
    transaction: routing.TransactionId,
    segment: routing.SegmentNumber,
    request: Request,
    tidegauge_sequence: Annotated[
        _Sequence,
        Header(description="1, 2, 3 … for each transaction and segment."),
    ],
) -> wire.EventsStaged:
    """Stage events, exactly once for each sequence number.

    They are routed by key at the commit: the segment may be sealed by then, or before.
    """
    calls.state.embedded_log()  # or nothing is read

    body = await read_body(request, event_wire.ARROW)
    events = await read_aside(lambda body: StagedEvents.of(read_arrow(body)), body)
    staged = await calls.stage(
        transaction, events, segment=segment, sequence=tidegauge_sequence
    )
    return wire.EventsStaged(**_open(calls.state, transaction), **staged._asdict())


@router.post(ANY + "/events", openapi_extra=NDJSON_BODY)
async def stage_lines(
    calls: CallsOf,
    transaction: routing.TransactionId,
    request: Request,
    tidegauge_sequence: Annotated[
        _Sequence | None,
        Header(description="1, 2, 3 … for each transaction, so that it can be repeated."),
    ] = None,
) -> wire.EventsStaged:
    """Stage one JSON object a line."""
    calls.state.embedded_log()  # or nothing is read

    body = await read_body(request, event_wire.NDJSON)
    events = await read_aside(lambda body: StagedEvents.of(read_ndjson(body), body), body)
    staged = await calls.stage(transaction, events, segment=None, sequence=tidegauge_sequence)
    return wire.EventsStaged(**_open(calls.state, transaction), **staged._asdict())


@router.post(ANY + "/ping")
async def ping(calls: CallsOf, transaction: routing.TransactionId) -> wire.TransactionBegun:
    """Keep a transaction open for another lease."""
    return _lease(calls.state, await calls.ping(transaction))


@reporting.post(ANY + "/commit")
async def commit(
    calls: CallsOf,
    transaction: routing.TransactionId,
    wanted: wire.CommitTransaction | None = None,
) -> wire.TransactionEnded:
    """Publish what was staged, in all segments at once, and note a time; or do neither.

    Committed already, it answers as the first time.
    """
    time = None if wanted is None else wanted.time
    return _ended(calls.state, await calls.commit(transaction, time))


@router.post(ANY + "/abort")
async def abort(calls: CallsOf, transaction: routing.TransactionId) -> wire.TransactionEnded:
    """Drop what was staged."""
    return _ended(calls.state, await calls.abort(transaction))


@router.get(ANY)
async def describe_transaction(
    calls: CallsOf, transaction: routing.TransactionId
) -> wire.TransactionDescription:
    """Describe a transaction; a finished one is remembered for 24 h."""
    info = _info(calls.state, await calls.find(transaction))
    return wire.TransactionDescription(**info, **routing.stream_facts(calls.state))


@router.get(ALL)
async def list_transactions(
    database: routing.DatabaseOf,
    state: routing.StreamOf,
    states: Annotated[
        tuple[wire.TransactionState, ...],
        Query(alias="state", description="Only those in this state; repeated, in any of them."),
    ] = (),
    limit: routing.Limit = 100,
    cursor: routing.Cursor = None,
) -> wire.TransactionList:
    """List transactions in order of id: those that are open, and those of the last 24 h."""
    state.embedded_log()
    found = await database.read(
        partial(
            read_transactions,
            stream_key=state.identity.key,
            states=states,
            after=routing.read_cursor(cursor, str) or "",
            limit=limit + 1,
        )
    )
    page = [wire.TransactionInfo(**_info(state, one)) for one in found[:limit]]
    return wire.TransactionList(
        now_ms=state.now().wall_ms,
        transactions=page,
        cursor=routing.write_cursor(page[-1].id) if len(found) > limit else None,
        **routing.stream_facts(state),
    )


@reporting.post(ONE + "/batches/{number}", openapi_extra=_BATCH_BODY)
async def append_batch(
    calls: CallsOf,
    caller: routing.CallerOf,
    number: Annotated[Integer, Between(0), Path(description="Rises; gaps are fine.")],
    request: Request,
    writer: Annotated[Name, Query(description="The job's name as a writer.")],
    incarnation: Annotated[
        Incarnation | None, Query(description="From the writer's registration.")
    ] = None,
    note_time: Annotated[
        str | None, Query(description="A time to note with the batch.")
    ] = None,
    seal: Annotated[  # noqa: FBT002 (a parameter of the query)
        bool,
        Query(
            description="What the job reads has ended: it leaves with this batch, and the stream "
            "is sealed if all its writers have ended. Needs the role `operate`, as sealing does."
        ),
    ] = False,
) -> wire.BatchAppended:
    """Append a job's batch, note a time and seal, all or nothing, exactly once by its number.

    The body is Arrow, or names transactions of the writer.
    """
    last = await calls.last_batch(writer)
    if number <= last:  # before anything of it is read
        return _appended(calls.state, last, None)
    if seal:
        caller.check(Role.OPERATE, calls.state.identity.name.scope)
    source = Source(writer, incarnation, read_time(note_time), of_its_own=True)
    events: pa.RecordBatch | None = None
    transactions: list[str] = []
    if has_media_type(request.headers.get("content-type", ""), JSON):
        body = await read_body(request, JSON)
        transactions = read_request(wire.BatchOfTransactions, body).transactions
    else:
        events = await read_aside(read_arrow, await read_body(request, event_wire.ARROW))
    job = JobBatch(number, source, seal)
    outcome = await calls.append_batch(job, events=events, transactions=transactions)
    return _appended(calls.state, *outcome)


def _appended(
    state: StreamState,
    last: int,
    position: Any,  # noqa: ANN401 (of a read-only mapping)
    hint: str | None = None,
    not_ended: Sequence[str] = (),
) -> wire.BatchAppended:
    return wire.BatchAppended(
        duplicate=position is None,
        last=last,
        position=None if position is None else dict(position),
        hint=hint,
        not_ended=list(not_ended),
        **routing.stream_facts(state),
    )


def _open(state: StreamState, transaction: str) -> dict[str, Any]:
    return {"id": transaction, "state": "open", **routing.stream_facts(state)}


def _lease(state: StreamState, one: Transaction) -> wire.TransactionBegun:
    return wire.TransactionBegun(expires_in_ms=one.timeout_ms, **_open(state, one.id))


def _ended(state: StreamState, one: Transaction) -> wire.TransactionEnded:
    return wire.TransactionEnded(
        id=one.id,
        state=one.state,
        position=None if one.position is None else dict(one.position),
        **routing.stream_facts(state),
    )


def _info(state: StreamState, one: Transaction) -> dict[str, Any]:
    left_ms = max(0, one.deadline_ms - state.listening_ms)
    return one._asdict() | {"expires_in_ms": left_ms if one.state == "open" else None}
