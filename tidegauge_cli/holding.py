"""Who held a watermark, and when a time was complete: tables, and sentences for the morning after."""

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal

from tidegauge.client.stream_calls import StreamCalls
from tidegauge.event_time import describe_event_time, describe_span, is_date
from tidegauge.holds import HoldEnd
from tidegauge.names import StreamName
from tidegauge.wire.streams import (
    HeldStream,
    HeldStreamList,
    HoldInfo,
    HoldList,
    MarksAtTime,
)
from tidegauge_cli.listing import Listing, Output, print_line
from tidegauge_cli.options import path_of
from tidegauge_cli.service import Service, Session, warn

_SHOWN = 5
_ENDS: dict[HoldEnd | None, str] = {
    "noted": "noted a later time",
    "left": "left",
    "silence": "expired: silent",
    "standing_still": "expired: stood still",
    "operator": "expired by an operator",
    "sealed": "the stream was sealed",
    "quiet": "no writer was waiting any more",
    None: "still holds it",
}
_GIVEN_UP: frozenset[HoldEnd | None] = frozenset({"silence", "standing_still", "operator"})


def show_held_streams(session: Session, since_ms: int) -> None:
    """Print the streams whose watermarks were held since a moment, the most held first."""
    path = "/v1/holds"
    found = session.ask(
        lambda service: service.get(path, HeldStreamList, since=since_ms, limit=1_000)
    )
    if session.as_json or not found.streams:
        session.show(found, "no watermark was held in that time")
    else:
        Output(_table_of_streams, as_json=False).page(found.streams)
        if found.more:
            warn(
                f"these are the {len(found.streams)} that were held the most; there are others"
            )


def show_holds(session: Session, stream: StreamName, since_ms: int) -> None:
    """Print who held a watermark since a moment, the newest first."""
    output = Output(table_of_holds, as_json=session.as_json)

    async def read(service: Service) -> bool:
        path, any_found = f"{path_of(stream)}/holds", False
        async for page in service.pages(path, HoldList, since=since_ms):
            if page.holds or session.as_json:
                output.page(page.holds)
            any_found = any_found or bool(page.holds)
        return any_found

    if not session.ask(read) and not session.as_json:
        print_line(
            "no writer held the watermark for longer than usual in that time", sys.stdout
        )
    output.end()


def show_completion(session: Session, stream: StreamName, time: int) -> None:
    """Print when the watermark reached a time, and who held it until then."""

    async def read(service: Service) -> tuple[MarksAtTime, int, list[HoldInfo]]:
        found = await StreamCalls(service.transport, stream).marks_at_time(time)
        done_ms, is_dated = found.completed_ms, is_date(time)
        held, now_ms = list[HoldInfo](), 0
        if is_dated and done_ms is not None and done_ms <= time:
            return found, now_ms, held  # it was ahead of the clock, so that nobody held it back
        since, until = time if is_dated else None, None if done_ms is None else done_ms + 1
        path = f"{path_of(stream)}/holds"
        async for page in service.pages(path, HoldList, since=since, until=until):
            held += [one for one in page.holds if not _has_reached(one.watermark, time)]
            now_ms = page.now_ms
            if held and not is_dated:  # what came before the last hold says nothing of the time
                held = [one for one in held if one.began_ms == held[0].began_ms]
                break
        return found, now_ms, held[::-1]

    found, now_ms, held = session.ask(read)
    session.show({"at": found, "holds": held}, *_lines_at(found, held, now_ms))


def _has_reached(watermark: int | None, time: int) -> bool:
    return watermark is not None and watermark >= time


def _table_of_streams(streams: Iterable[HeldStream]) -> Listing:
    listing = Listing(stream=0, held=0, spans=2, longest=1, writer=0, **{"from, UTC": 0})
    for one in streams:
        first = one.longest
        lasted = describe_span(first.until_ms - first.since_ms)
        listing.add(
            one.stream,
            describe_span(one.held_ms),
            str(one.spans),
            lasted,
            _who(first),
            _brief(first.since_ms),
        )
    return listing


def table_of_holds(holds: Iterable[HoldInfo]) -> Listing:
    """Show spans, one a line."""
    listing = Listing(**{"from, UTC": 0, "for": 0, "event time": 1, "held by": 0, "how": 0})
    listing.wraps = "how"
    for one in holds:
        listing.add(
            _brief(one.since_ms),
            describe_span(one.until_ms - one.since_ms),
            "none yet" if one.watermark is None else _brief(one.watermark, to_the="minute"),
            _who(one),
            f"{'reporting' if one.reported else 'silent'}; {_ENDS[one.end]}{_of_which(one)}",
        )
    return listing


def _lines_at(found: MarksAtTime, held: Sequence[HoldInfo], now_ms: int) -> list[str]:
    """Say when the watermark reached a time, who held it in the meantime, in order, and what is late."""
    time, done_ms = found.time, found.completed_ms
    near = partial(_wall, near_ms=time)
    if found.stop is None:
        lines = [f"the watermark has not reached {near(time)} yet"]
        if is_date(time) and time > now_ms:
            return [f"{lines[0]}: that is {describe_span(time - now_ms)} from now"]
        if is_date(time):
            lines[0] += f", {describe_span(now_ms - time)} after that time"
    elif done_ms is None:
        lines = [f"the watermark has reached {near(time)}; when is not known"]
    else:
        about = "" if found.completed_exact else "at the latest "
        later = describe_span(done_ms - time) if is_date(time) else ""
        lines = [
            f"the watermark reached {near(time)} {about}at {near(done_ms)}"
            + (f", {later} later" if later and done_ms > time else "")
        ]
    if not held:
        return [*lines, "no writer held it for longer than usual in the meantime"]
    most = sorted(held, key=lambda one: one.since_ms - one.until_ms)[:_SHOWN]
    for one in (one for one in held if one in most):
        span = describe_span(one.until_ms - one.since_ms)
        line = f"{_who(one)} held it for {span} from {near(one.since_ms)}: {_ENDS[one.end]}"
        if one.end in _GIVEN_UP:
            line += "; it was given up: what it still brings from before is late"
        lines.append(line + _of_which(one))
    rest = len(held) - len(most)
    return [*lines, f"and {rest} shorter spans"] if rest else lines


def _who(one: HoldInfo) -> str:
    return f"{one.writer} and {one.others} more" if one.others else one.writer


def _of_which(one: HoldInfo) -> str:
    """Say what of a span is no fault of its writer, if that is much of it."""
    span_ms, parts = one.until_ms - one.since_ms, list[str]()
    if 2 * one.silence_ms >= span_ms:
        parts.append(f"no writer reported for {describe_span(one.silence_ms)}")
    if one.unheard_ms:
        parts.append(f"the service took no reports for {describe_span(one.unheard_ms)}")
    return f" ({'; '.join(parts)})" if parts else ""


def _brief(ms: int, *, to_the: Literal["minute", "second"] = "second") -> str:
    """Show a time as month, day and time of day, in UTC; what is no date as it is."""
    if not is_date(ms):
        return describe_event_time(ms)
    return describe_event_time(ms).replace("T", " ")[5 : 16 if to_the == "minute" else 19]


def _wall(ms: int, near_ms: int | None = None) -> str:
    """Show a time in whole seconds; of the same day as another one without its date."""
    if not is_date(ms):
        return describe_event_time(ms)
    text = describe_event_time(ms - ms % 1_000).replace(".000Z", "Z")
    day_ms = 86_400_000
    is_near = near_ms is not None and ms != near_ms and near_ms // day_ms == ms // day_ms
    return text.partition("T")[2] if is_near else text
