"""How people see streams, writers, marks and groups."""

import time
from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from rich.text import Text

from tidegauge.event_time import END_OF_TIME, describe_event_time, describe_span
from tidegauge.explain.states import LABELS, Tone
from tidegauge.states import Reason
from tidegauge.wire.groups import GroupDetails, ListedGroup, TimeWindowInfo
from tidegauge.wire.streams import BriefStreamList, JudgedState, MarkInfo, StreamBrief
from tidegauge.wire.writers import ExplanationInfo, WriterInfo
from tidegauge_cli.listing import Listing

_STATE_STYLE = {"behind": "yellow", "joining": "yellow", "expired": "red", "left": "dim"}
_TONE_STYLE: dict[Tone, str] = {
    "red": "red",
    "amber": "yellow",
    "green": "green",
    "blue": "cyan",
    "grey": "dim",
}
_ABOUT_WRITERS: set[Reason] = {"joining", "holding", "min_writers"}


class JudgedStream(NamedTuple):
    """A listed stream, its state, and the service's clock when it was listed."""

    stream: StreamBrief
    judged: JudgedState
    now_ms: int


def judge(page: BriefStreamList) -> list[JudgedStream]:
    """Pair each stream of a page with its state; those in trouble come first."""
    judged = [
        JudgedStream(stream, stream.judged, page.now_ms)
        for stream in page.streams
        if stream.judged is not None
    ]
    return sorted(judged, key=lambda one: (one.judged.rank, one.stream.stream))


def table_of_streams(streams: Iterable[JudgedStream]) -> Listing:
    """Show streams, one a line."""
    listing = Listing(
        stream=0, watermark=1, behind=2, state=0, marks=4, segments=5, events=3, log=6
    )
    listing.shortens, listing.wraps = "watermark", "state"
    for one, judged, now_ms in streams:
        words = describe_state(one, judged, now_ms=now_ms)
        listing.add(
            one.stream,
            describe_time(one.watermark),
            describe_lag(one.watermark, follows_clock=one.follows_clock),
            Text(words, style=_TONE_STYLE[judged.tone]),
            str(one.revision),
            str(one.segments),
            _content(one),
            one.table or one.log,
        )
    return listing


def describe_state(stream: StreamBrief, judged: JudgedState, *, now_ms: int) -> str:
    """Return the state of a stream in a line, such as ``held by gateway-7 and 2 more for 53s``."""
    words, explanation = judged.label, stream.explanation
    is_held = judged.state == "held"
    if is_held and explanation is not None and explanation.holder is not None:
        more = explanation.holder_count - 1
        words += f" by {explanation.holder}" + (f" and {more} more" if more else "")
    if judged.since_ms is not None and judged.since_ms <= now_ms:
        words += f" for {describe_span(now_ms - judged.since_ms)}"
    is_odd = is_held and explanation is not None and explanation.hint is not None
    return f"{words}, {LABELS['odd']}" if is_odd else words


def _content(one: StreamBrief) -> str:
    """Show how many events the log holds, or the version at which a table is complete."""
    if one.version is not None:
        return f"version {one.version}"
    return "" if one.events is None else str(one.events)


def table_of_writers(writers: Iterable[WriterInfo]) -> Listing:
    """Show writers, one a line."""
    listing = Listing(
        writer=0,
        state=0,
        incarnation=5,
        stands=0,
        behind=2,
        silent=4,
        clock=3,
        expires=1,
        remarks=6,
        position=7,
    )
    for one in writers:
        listing.add(
            one.writer,
            Text(
                "ended" if one.ended else one.state, style=_STATE_STYLE.get(one.state, "green")
            ),
            str(one.incarnation),
            describe_time(one.stand),
            _span(one.behind_ms),
            _span(one.silent_ms),
            describe_clock(one),
            _span(one.remaining_ms if one.expires_in_ms is None else one.expires_in_ms),
            describe_remarks(one),
            describe_position(one.position or {}),
        )
    return listing


def table_of_marks(marks: Iterable[MarkInfo]) -> Listing:
    """Show marks, one a line."""
    listing = Listing(revision=0, made=1, lower=0, upper=3, cut=2)
    for one in marks:
        times = map(describe_time, (one.marked_ms, one.lower, one.upper))
        listing.add(str(one.revision), *times, describe_position(one.cut))
    return listing


def table_of_groups(groups: Iterable[ListedGroup]) -> Listing:
    """Show reader groups, a line for each reader; what is of the group is in its first."""
    listing = Listing(group=0, streams=3, reader=0, segments=0, unassigned=2, behind=1)
    for one in groups:
        streams, unassigned = ", ".join(one.streams), str(_count(one.state.unassigned))
        windows = one.windows or ()
        behind = describe_behind(max(windows, key=_behind)) if windows else ""
        if not one.state.readers:
            listing.add(one.group, streams, "", "", unassigned, behind)
        for name, reader in one.state.readers.items():
            owned = str(_count(reader.owned))
            listing.add(one.group, streams, name, owned, unassigned, behind)
            streams = unassigned = behind = ""  # of the group: once is enough
    return listing


def table_of_windows(windows: Iterable[TimeWindowInfo]) -> Listing:
    """Show the time windows of a reader group, a line for each stream."""
    listing = Listing(stream=0, lower=0, upper=0, watermark=2, behind=1, position=3)
    for one in windows:
        listing.add(
            one.stream,
            describe_lower(one),
            describe_upper(one),
            describe_time(one.watermark),
            describe_behind(one),
            describe_position(one.position),
        )
    return listing


def describe_lower(window: TimeWindowInfo) -> str:
    """Show where a window begins."""
    return "before the first mark" if window.lower is None else describe_time(window.lower)


def describe_upper(window: TimeWindowInfo) -> str:
    """Show where a window ends."""
    return "at the tail" if window.upper is None else describe_time(window.upper)


def describe_behind(window: TimeWindowInfo) -> str:
    """Show how far a group is behind the watermark of a stream."""
    if window.watermark is None:
        return "no mark yet"
    if window.next_mark is None:
        return "caught up"
    if window.lower is None:
        return "before the first mark"
    return "" if window.final else _span(window.watermark - window.lower)


def _behind(window: TimeWindowInfo) -> float:
    """Order windows by how far behind they are."""
    if window.watermark is None or window.next_mark is None:
        return -1
    return inf if window.lower is None else window.watermark - window.lower


def lines_of_progress(group: GroupDetails) -> list[str]:
    """Show what the query of a group last reported, a line each, without what it does not know."""
    progress = group.progress
    if progress is None:
        nothing = (
            f"no query has reported as {group.group} for 5 minutes; in Spark "
            "spark.streams.addListener(spark_source.ProgressListener(url)) does, for queries "
            f"with readerGroup={group.group}"
        )
        return [nothing]
    late = f"{progress.late} rows"
    if progress.late_by_ms is not None:
        late += f", by up to {describe_span(progress.late_by_ms)}"
    if progress.late_writers:
        worst = sorted(progress.late_writers.items(), key=lambda one: -one[1])
        late += f": {', '.join(f'{writer} {rows}' for writer, rows in worst)}"
    shown = {
        "bound": describe_time(progress.bound),
        "lag": _span(progress.lag_ms),
        "backlog": "" if progress.backlog is None else f"{progress.backlog} rows",
        "state": "" if progress.state_bytes is None else f"{progress.state_bytes} bytes",
        "late": late,
        "late out": f"{progress.late_output} rows late for all their windows, "
        f"{progress.partially_late} for some of them",
        "reported": f"{describe_span(progress.silent_ms)} ago",
    }
    return [f"{name:<9} {text}" for name, text in shown.items() if text]


def lines_of(explanation: ExplanationInfo) -> list[str]:
    """Show why a watermark stands, and the command that helps in a line of its own."""
    if explanation.command is None:
        return [explanation.in_full]
    words = explanation.in_full.removesuffix(f" {explanation.command}")
    return [words, f"  {explanation.command}"]


def holders_of(explanation: ExplanationInfo) -> list[WriterInfo]:
    """Choose the writers to be looked at: those of the sentence; none if they are not the reason."""
    if explanation.reason not in _ABOUT_WRITERS:
        return []
    if explanation.waiting_count:
        return explanation.holders
    return [one for one in explanation.holders if one.state == "joining"]


def describe_rest(explanation: ExplanationInfo) -> str:
    """Say how many more there are to be looked at than the answer lists; nothing if none."""
    listed = holders_of(explanation)
    joining = explanation.states.get("joining", 0)
    more = (explanation.holder_count if explanation.waiting_count else joining) - len(listed)
    return f"and {more} more" if listed and more else ""


def describe_time(time_ms: int | None) -> str:
    """Show an event time, or that there is none."""
    return "none yet" if time_ms is None else describe_event_time(time_ms)


def describe_remarks(writer: WriterInfo) -> str:
    """Show what is not so for most: it stands where its registration said, or has no grace."""
    remarks = {"start time": writer.stand_by == "registered", "no grace": not writer.grace}
    return ", ".join(remark for remark, applies in remarks.items() if applies)


def describe_clock(writer: WriterInfo) -> str:
    """Show what the clock shows that is nearer its end; nothing if none runs."""
    if writer.clock is None:
        return ""
    if writer.clock == "silence":
        return f"silent {_span(writer.silent_for_ms)}"
    return f"still {_span(writer.standing_for_ms)}"


def describe_lag(watermark: int | None, *, follows_clock: bool) -> str:
    """Show how far a watermark is behind this machine's clock, if it follows a clock."""
    if watermark is None or watermark == END_OF_TIME or not follows_clock:
        return ""
    return describe_span(round(time.time() * 1_000) - watermark)


def _span(span_ms: int | None) -> str:
    return "" if span_ms is None else describe_span(span_ms)


def describe_position(position: Mapping[int, int]) -> str:
    """Show the first segments of a position, and how many more there are."""
    shown = [f"{number}:{offset}" for number, offset in sorted(position.items())[:8]]
    more = len(position) - len(shown)
    return ",".join(shown) + (f" and {more} more" if more else "")


def _count(offsets: Mapping[str, Mapping[int, int]]) -> int:
    return sum(len(segments) for segments in offsets.values())
