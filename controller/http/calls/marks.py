"""Calls about marks and the tail: what readers wait on, and the index of time and position."""

from typing import Annotated

from fastapi import Query, Request, Response

from controller.http import routing
from controller.streams import history
from controller.streams.judging import judge
from controller.streams.stream import StreamState
from tidegauge.errors import InvalidPositionError, InvalidRequestError
from tidegauge.event_time import parse_event_time
from tidegauge.explain.explanation import Explanation
from tidegauge.lattice import UnknownSegmentError
from tidegauge.positions import parse_position
from tidegauge.topology import Position
from tidegauge.wire.streams import (
    JudgedState,
    MarkHistory,
    MarkInfo,
    MarkList,
    MarksAtPosition,
    MarksAtTime,
    Tail,
)
from tidegauge.wire.values import Between, Integer
from tidegauge.wire.writers import ExplanationInfo, Watermark

router = routing.router_of("marks")
ONE = "/v1/streams/{scope}/{stream}"
_MOST_STEPS = 2_000
_Revision = Annotated[
    Integer, Between(0), Query(description="The newest revision that is known.")
]
_MarkLimit = Annotated[
    Integer,
    Between(1, 1_000),
    Query(
        description="At most so many marks, and no more than have 50 000 entries of cuts together: "
        "12 in a stream of 4 000 segments. One with fewer need not be the last: read on until a "
        "page is empty."
    ),
]
_PositionText = Annotated[
    str | None, Query(description="Segment to offset, written `0:40,1:12`.")
]


@router.get(ONE + "/watermark")
async def watermark(sequencer: routing.SequencerOf, state: routing.StreamOf) -> Watermark:
    """Say where event time stands, and why."""

    def explain() -> tuple[Explanation, JudgedState | None]:
        seen, hot = state.aggregator.inspect(state.now()), state.load.hot_until_ms
        explanation = seen.explain(hot=hot, odd_event=state.odd_event)
        return explanation, judge(state).judged

    explanation, judged = await sequencer.read(explain)
    return Watermark(
        stream=str(state.identity.name),
        judged=judged,
        mark=None if state.published.mark is None else MarkInfo.of(state.published.mark),
        explanation=ExplanationInfo.model_validate(explanation, from_attributes=True),
        **routing.stream_facts(state),
    )


@router.get(ONE + "/tail", response_model=Tail)
async def tail(
    waiting: routing.WaitingOf,
    state: routing.StreamOf,
    request: Request,
    after: _PositionText = None,
    revision: _Revision = 0,
    wait_ms: routing.WaitMs = 0,
) -> Response:
    """Answer as soon as there is an event beyond ``after``, a new segment or a new mark."""
    known = None if after is None else _position(state, after, "after")

    def has_news() -> bool | None:
        grown = known is None or _has_grown(state, known)
        return grown or state.revision > revision or state.deleted or None

    await waiting.until(state.changed, has_news, wait_ms=wait_ms, receive=request.receive)
    state.refuse_if_deleted()
    found = Tail(
        tail=state.durable_tails,
        first_cut=state.published.first_cut,
        topology_revision=state.published.topology.revision,
        revision=state.revision,
        **routing.stream_facts(state),
    )
    # FastAPI would make a document of thousands of entries first, and JSON of that.
    return Response(found.model_dump_json(), media_type="application/json")


@router.get(ONE + "/marks")
async def marks(
    database: routing.DatabaseOf,
    waiting: routing.WaitingOf,
    state: routing.StreamOf,
    request: Request,
    after: _Revision = 0,
    limit: _MarkLimit = 100,
    wait_ms: routing.WaitMs = 0,
) -> MarkList:
    """List marks after a revision; wait for the next if there is none.

    Read on after the revision of the last one, until a page is empty.
    """

    def has_news() -> bool | None:
        return state.revision > after or state.deleted or None

    await waiting.until(state.changed, has_news, wait_ms=wait_ms, receive=request.receive)
    state.refuse_if_deleted()
    news = []
    # A caller that waits wants the next mark, which is in memory: thousands wake at once for it.
    if state.published.mark is not None and state.revision == after + 1:
        news = [state.published.mark]
    elif state.revision > after:
        news = await history.marks_after(database, state, after, limit=limit)
    return MarkList(
        marks=[MarkInfo.of(mark) for mark in news],
        now_ms=state.now().wall_ms,
        **routing.stream_facts(state),
    )


@router.get(ONE + "/marks/history")
async def mark_history(
    database: routing.DatabaseOf,
    state: routing.StreamOf,
    span: routing.WallSpanOf,
    step_ms: Annotated[
        Integer,
        Between(1),
        Query(description="Length of a step of wall clock, ms; the first begins at `since`."),
    ] = 1_000,
) -> MarkHistory:
    """List when the watermark was where, one entry for each step of wall clock: at most 2 000 steps.

    The mark in force at `since` comes first.
    """
    now_ms, since_ms = state.now().wall_ms, span.since_ms
    until_ms = min(span.until_ms, now_ms)
    if until_ms - since_ms > _MOST_STEPS * step_ms:
        least = -(-(until_ms - since_ms) // _MOST_STEPS)
        raise InvalidRequestError.of(
            "step_ms", f"these are more than {_MOST_STEPS} steps; send {least} or more"
        )
    columns = await history.steps_of(database, state, since_ms, until_ms, step_ms)
    newest = state.published.mark
    sealed_ms = newest.marked_ms if newest is not None and newest.final else None
    return MarkHistory(
        **columns._asdict(), sealed_ms=sealed_ms, now_ms=now_ms, **routing.stream_facts(state)
    )


@router.get(ONE + "/marks/at")
async def marks_at(
    database: routing.DatabaseOf,
    state: routing.StreamOf,
    time: Annotated[
        str | None, Query(description="Event time: ms, or RFC 3339 with a zone.")
    ] = None,
    position: _PositionText = None,
) -> MarksAtTime | MarksAtPosition:
    """Find where a time starts and is complete, or the watermark in effect at a position."""
    if (time is None) == (position is None):
        raise InvalidRequestError.of("time", "send either time or position")
    if time is not None:
        try:
            asked_ms, awaited_ms = parse_event_time(time), parse_event_time(time, up=True)
        except ValueError as error:
            raise InvalidRequestError.of("time", str(error)) from error
        start, exact = await history.start_of(database, state, asked_ms)
        stop = await history.first_mark_from(database, state, awaited_ms)
        completed_ms, is_exact = None, False
        if stop is not None:
            completed = await history.completed_at(database, state, awaited_ms, stop)
            completed_ms, is_exact = completed
        return MarksAtTime(
            completed_ms=completed_ms,
            completed_exact=is_exact,
            time=asked_ms,
            start=start,
            exact=exact,
            stop=None if stop is None else MarkInfo.of(stop),
            **routing.stream_facts(state),
        )
    asked = _position(state, position or "", "position")
    try:
        found = await history.at_position(database, state, asked)
    except UnknownSegmentError as error:
        reason = "there is no such segment"
        raise InvalidPositionError(error.segment, asked[error.segment], reason, {}) from error
    return MarksAtPosition(
        lower=found.window.lower,
        upper=found.window.upper,
        passed=None if found.passed is None else MarkInfo.of(found.passed),
        **routing.stream_facts(state),
    )


def _has_grown(state: StreamState, known: Position) -> bool:
    """Return whether there is an event beyond a position, or a growing segment that it does not name.

    Of sealed segments only those that it names are checked: there may be thousands.
    """
    tails = state.durable_tails
    return any(tails.get(number, -1) > offset for number, offset in known.items()) or any(
        number not in known for number in state.published.topology.unsealed
    )


def _position(state: StreamState, text: str, field: str) -> dict[int, int]:
    try:
        position = parse_position(text)
    except ValueError as error:
        raise InvalidRequestError.of(field, str(error)) from error
    state.limits.check_position(position)
    for number, offset in position.items():
        if offset < 0:
            raise InvalidPositionError(number, offset, "offsets are 0 or more", {})
    return position
