"""Calls of and about writers: register, leave, expire, list."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Query

from controller.access.callers import Role
from controller.http import routing
from controller.http.calls.reporting import ReportingRoute
from controller.listing import first_page
from controller.streams import reports
from controller.streams.stream import StreamState
from tidegauge.errors import InvalidRequestError
from tidegauge.explain.situation import WriterStatus
from tidegauge.names import check_name
from tidegauge.states import WriterState
from tidegauge.wire import writers as wire

router = routing.router_of("writers")
reporting = routing.router_of("writers", ReportingRoute)
WRITERS = "/v1/streams/{scope}/{stream}/writers"


@reporting.post(WRITERS + "/{writer}/register")
async def register(
    sequencer: routing.SequencerOf,
    state: routing.StreamOf,
    writer: routing.WriterName,
    first: wire.RegisterWriter | None = None,
) -> wire.WriterRegistered:
    """Start a new incarnation of a writer; the former one is fenced.

    With a `registration_id` it is repeated safely: whatever arrives twice, or late, makes one.
    """
    first = first or wire.RegisterWriter()
    registration = await sequencer.submit(
        partial(reports.register, state=state, writer=writer, first=first)
    )
    return wire.WriterRegistered(
        incarnation=registration.incarnation,
        time=registration.time,
        beat_ms=state.beat_ms,
        state=registration.state,
        position=registration.position,
        hint=reports.seconds_hint(state, first.time),
        **routing.stream_facts(state),
    )


@reporting.post(WRITERS + "/{writer}/leave")
async def leave(
    sequencer: routing.SequencerOf,
    state: routing.StreamOf,
    caller: routing.CallerOf,
    writer: routing.WriterName,
    last: wire.LeaveStream | None = None,
) -> wire.WriterAnswer:
    """Remove a writer, which will write no more.

    With `ended`, the stream is sealed if all its writers have ended. It needs the role `operate`.
    """
    last = last or wire.LeaveStream()
    if last.ended:
        caller.check(Role.OPERATE, state.identity.name.scope)
    left, not_ended = await sequencer.submit(
        partial(reports.leave, state=state, writer=writer, last=last)
    )
    return _answer(state, left, reports.seconds_hint(state, last.time), not_ended)


@router.post(WRITERS + "/{writer}/expire")
async def expire(
    sequencer: routing.SequencerOf, state: routing.StreamOf, writer: routing.WriterName
) -> wire.WriterAnswer:
    """Expire a writer manually; what it reported still counts."""
    expired = await sequencer.submit(partial(reports.expire, state=state, writer=writer))
    return _answer(state, expired, None)


def _answer(
    state: StreamState, status: WriterStatus, hint: str | None, not_ended: Sequence[str] = ()
) -> wire.WriterAnswer:
    """Return what became of a writer; it may be forgotten by now, if nothing is retained."""
    return wire.WriterAnswer(
        **_info(status).model_dump(),
        hint=hint,
        not_ended=list(not_ended),
        **routing.stream_facts(state),
    )


@router.get(WRITERS)
async def list_writers(
    sequencer: routing.SequencerOf,
    state: routing.StreamOf,
    *,
    states: Annotated[
        tuple[WriterState, ...],
        Query(
            alias="state", description="Only writers in this state; repeated, in any of them."
        ),
    ] = (),
    order: Annotated[
        Literal["name", "slowest"],
        Query(
            description="`slowest`: one page of those that stand lowest, without a cursor; the live "
            "ones, unless states are given. Those that stand nowhere are first."
        ),
    ] = "name",
    prefix: Annotated[str, Query(description="How the names begin that are wanted.")] = "",
    positions: Annotated[bool, Query(description="Whether to list positions.")] = True,
    limit: routing.Limit = 100,
    cursor: routing.Cursor = None,
) -> wire.WriterList:
    """List writers in order of name, or the slowest: all, or those in one state."""
    after = routing.read_cursor(cursor, check_name) or ""
    if order == "slowest" and cursor is not None:
        reason = "the slowest are one page; raise its limit, or leave the cursor out"
        raise InvalidRequestError.of("cursor", reason)

    def read() -> tuple[list[wire.WriterInfo], bool]:
        seen = state.aggregator.inspect(state.now())
        statuses: Iterable[WriterStatus]
        if order == "slowest":
            statuses = seen.slowest(limit, prefix=prefix, states=states)
        else:
            statuses = seen.statuses(after=after, prefix=prefix, states=states)
        if not positions:
            short = (_info(one).model_copy(update={"position": None}) for one in statuses)
            return first_page(short, limit, entries=lambda _: 1)
        page, more = first_page(statuses, limit, entries=lambda one: len(one.position))
        return [_info(one) for one in page], more

    page, more = await sequencer.read(read)
    return wire.WriterList(
        writers=page,
        now_ms=state.now().wall_ms,
        cursor=routing.write_cursor(page[-1].writer) if more and order == "name" else None,
        **routing.stream_facts(state),
    )


@router.get(WRITERS + "/{writer}")
async def describe_writer(
    sequencer: routing.SequencerOf, state: routing.StreamOf, writer: routing.WriterName
) -> wire.WriterDescription:
    """Describe a writer: where it stands, and what its clocks show."""
    status = await sequencer.read(lambda: state.aggregator.inspect(state.now()).status(writer))
    return wire.WriterDescription(**_info(status).model_dump(), **routing.stream_facts(state))


def _info(status: Any) -> wire.WriterInfo:  # noqa: ANN401 (a dataclass of the same fields)
    return wire.WriterInfo.model_validate(status, from_attributes=True)
