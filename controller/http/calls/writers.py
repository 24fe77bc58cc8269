"""Calls of and about writers: register, leave, expire, list."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from controller.http.calls.reporting import ReportingRoute
from controller.http.messages.cursors import read_cursor, write_cursor
from controller.http.routing import (
    Cursor,
    Limit,
    ServiceOf,
    StreamOf,
    StrictRoute,
    WriterName,
    stream_facts,
)
from controller.store.paging import first_page
from controller.streams import reports
from controller.streams.stream import StreamState
from tidegauge.aggregation.writers import WriterState
from tidegauge.explain.situation import WriterStatus
from tidegauge.names import check_name
from tidegauge.wire.writers import (
    LeaveStream,
    RegisterWriter,
    WriterAnswer,
    WriterInfo,
    WriterList,
    WriterRegistered,
)

router = APIRouter(route_class=StrictRoute, tags=["writers"])
reporting = APIRouter(route_class=ReportingRoute, tags=["writers"])
WRITERS = "/v1/streams/{scope}/{stream}/writers"


@reporting.post(WRITERS + "/{writer}/register")
async def register(
    service: ServiceOf,
    state: StreamOf,
    writer: WriterName,
    first: RegisterWriter | None = None,
) -> WriterRegistered:
    """Start a new incarnation of a writer; the former one is fenced."""
    time = None if first is None else first.time
    registration = await service.sequencer.submit(
        partial(reports.register, clocks=service.clocks, state=state, writer=writer, time=time)
    )
    return WriterRegistered(
        **stream_facts(state)
        | {
            "incarnation": registration.incarnation,
            "state": registration.state,
            "position": registration.position,
            "hint": reports.seconds_hint(state, time),
        }
    )


@reporting.post(WRITERS + "/{writer}/leave")
async def leave(
    service: ServiceOf,
    state: StreamOf,
    writer: WriterName,
    last: LeaveStream | None = None,
) -> WriterAnswer:
    """Count a writer no longer: it will write no more."""
    last = last or LeaveStream()
    left = await service.sequencer.submit(
        partial(reports.leave, clocks=service.clocks, state=state, writer=writer, last=last)
    )
    return _answer(state, left, reports.seconds_hint(state, last.time))


@router.post(WRITERS + "/{writer}/expire")
async def expire(service: ServiceOf, state: StreamOf, writer: WriterName) -> WriterAnswer:
    """Drop a writer by hand; what it reported still counts."""
    expired = await service.sequencer.submit(
        partial(reports.expire, clocks=service.clocks, state=state, writer=writer)
    )
    return _answer(state, expired, None)


def _answer(state: StreamState, status: WriterStatus, hint: str | None) -> WriterAnswer:
    """Say what became of a writer; it may be forgotten by now, if nothing is retained."""
    facts = stream_facts(state) | {"hint": hint}
    return WriterAnswer(**_info(status).model_dump(), **facts)


@router.get(WRITERS)
async def list_writers(
    service: ServiceOf,
    state: StreamOf,
    state_is: Annotated[
        WriterState | None, Query(alias="state", description="Only writers in this state.")
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> WriterList:
    """List writers in order of name, all or those in one state."""
    after = read_cursor(cursor, check_name) or ""

    def look() -> tuple[list[WriterInfo], bool]:
        seen = state.aggregator.inspect(service.clocks.now())
        statuses = seen.statuses(after=after, state=state_is)
        page, more = first_page(statuses, limit, entries=lambda one: len(one.position))
        return [_info(one) for one in page], more

    page, more = await service.sequencer.read(look)
    return WriterList(
        writers=page,
        cursor=write_cursor(page[-1].writer) if more else None,
        **stream_facts(state),
    )


def _info(status: Any) -> WriterInfo:  # noqa: ANN401 (a dataclass of the same fields)
    return WriterInfo.model_validate(status, from_attributes=True)
