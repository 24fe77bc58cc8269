"""Calls about holds: who held a watermark, from when to when."""

from controller.http import routing
from controller.http.calls.streams import ONE
from controller.store.holds import read_held
from controller.streams import history
from tidegauge.wire.streams import HeldStreamList, HoldInfo, HoldList

router = routing.router_of("holds")


def _number(text: str) -> int:
    number = int(text)
    if not 0 < number < 2**63:
        msg = "no span has such a number"
        raise ValueError(msg)
    return number


@router.get(ONE + "/holds")
async def list_holds(
    database: routing.DatabaseOf,
    sequencer: routing.SequencerOf,
    state: routing.StreamOf,
    span: routing.WallSpanOf,
    *,
    limit: routing.Limit = 100,
    cursor: routing.Cursor = None,
) -> HoldList:
    """List who held the watermark, the newest first; the `end` of a hold that continues is null.

    A hold counts once it lasts for 10 s, or four times the mean distance of the marks.
    """
    now = state.now()
    current = await sequencer.read(lambda: state.aggregator.current_hold(state.now()))
    found = await history.holds_of(
        database,
        state,
        current,
        since_ms=span.since_ms,
        until_ms=span.until_ms,
        before=routing.read_cursor(cursor, _number),
        limit=limit + 1,
    )
    return HoldList(
        holds=[HoldInfo.model_validate(hold, from_attributes=True) for hold in found[:limit]],
        cursor=routing.write_cursor(str(found[limit - 1].number))
        if len(found) > limit
        else None,
        now_ms=now.wall_ms,
        **routing.stream_facts(state),
    )


@router.get("/v1/holds")
async def list_held_streams(
    listing: routing.ListingOf,
    database: routing.DatabaseOf,
    clocks: routing.ClocksOf,
    caller: routing.CallerOf,
    span: routing.WallSpanOf,
    *,
    limit: routing.Limit = 100,
) -> HeldStreamList:
    """List the streams whose watermarks were held, the most held first, in scopes where the caller has a role."""
    since_ms, until_ms = span
    stored = await database.read(
        lambda connection: read_held(connection, since_ms=since_ms, until_ms=until_ms)
    )
    held = await listing.held(stored, since_ms=since_ms, until_ms=until_ms, of=caller.roles)
    held.sort(key=lambda one: (-one.held_ms, one.stream))
    return HeldStreamList(
        streams=held[:limit], more=len(held) > limit, now_ms=clocks.now().wall_ms
    )
