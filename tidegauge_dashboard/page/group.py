"""A reader group: how far it is behind, and who keeps its window back."""

from collections.abc import Iterable, Mapping, Sequence

from tidegauge.event_time import END_OF_TIME
from tidegauge.lattice import count_between
from tidegauge.wire.groups import GroupDetails, NotedProgress, TimeWindowInfo
from tidegauge.wire.streams import StreamInfo
from tidegauge_dashboard.page.chart import HUES
from tidegauge_dashboard.page.overview import tone_of
from tidegauge_dashboard.page.scales import BehindScale
from tidegauge_dashboard.page.words import Part, Times, grouped, plural, rounded, span_text

_NAMES = 3
NOBODY = "no reader"


def section_of(
    details: GroupDetails, window: TimeWindowInfo, info: StreamInfo, *, now_ms: int
) -> Part:
    """Draw how far a group is in one of its streams."""
    follows = info.config.max_future_skew_ms is not None
    times = Times.of(follows_clock=follows, example=window.watermark)
    offsets = offsets_of(details, window.stream)
    owners = owners_of(details, window.stream)
    missing = missing_by_owner(window, info, offsets, owners)
    behind = None
    if info.tail is not None:
        behind = count_between(info.topology.to_topology(), window.position, info.tail)
    headline, tone = _headline(details, window, times)
    return {
        "stream": window.stream,
        "headline": headline,
        "tone": tone,
        "sentence": _sentence(missing),
        "behind": None if behind is None else grouped(behind),
        "lower": times.moment(window.lower) or {"text": "before the first mark"},
        "upper": times.moment(window.upper) or {"text": "at the tail"},
        "watermark": times.moment(window.watermark),
        "ruler": _ruler(window, times, now_ms),
        "segments": _segments(
            window, info, offsets, owners, readers=details.state.readers, tone=tone
        ),
    }


def farthest_first(windows: Iterable[TimeWindowInfo]) -> list[TimeWindowInfo]:
    """Order the windows of a group: those farthest behind first, then those that are caught up."""

    def rank(one: TimeWindowInfo) -> tuple[bool, bool, int, str]:
        behind = (one.watermark or 0) - (one.lower or 0)
        return one.next_mark is None, one.lower is not None, -behind, one.stream

    return sorted(windows, key=rank)


def more_of(count: int) -> str | None:
    """Describe how many streams of a group are not drawn; None for none."""
    if not count:
        return None
    are = "is" if count == 1 else "are"
    return (
        f"{plural(count, 'more stream')} {are} not shown: the group is less far behind there."
    )


def offsets_of(details: GroupDetails, stream: str) -> dict[int, int]:
    """Return how far each segment is read, as was confirmed."""
    state = details.state
    found = dict(state.completed.get(stream, {})) | dict(state.unassigned.get(stream, {}))
    for one in state.readers.values():
        found |= one.owned.get(stream, {})
    return found


def owners_of(details: GroupDetails, stream: str) -> dict[int, str]:
    """Return which reader owns each segment."""
    return {
        number: name
        for name, one in details.state.readers.items()
        for number in one.owned.get(stream, {})
    }


def missing_by_owner(
    window: TimeWindowInfo,
    info: StreamInfo,
    offsets: Mapping[int, int],
    owners: Mapping[int, str],
) -> dict[str, int]:
    """Count the events that each reader has still to read before the next mark, most first."""
    if window.next_mark is None:
        return {}
    cut = window.next_mark.cut
    ancestors = info.topology.to_topology().ancestors
    sealed = {one.number: one.sealed_length for one in info.topology.segments}
    wanted = dict(cut)
    for old in ancestors.listed(ancestors.of(cut)):
        if old in offsets:
            wanted[old] = sealed.get(old) or 0
    missing: dict[str, int] = {}
    for number, until in wanted.items():
        left = until - offsets.get(number, 0)
        if left > 0 and number in offsets:
            owner = owners.get(number, NOBODY)
            missing[owner] = missing.get(owner, 0) + left
    return dict(sorted(missing.items(), key=lambda one: (-one[1], one[0])))


def _headline(details: GroupDetails, window: TimeWindowInfo, times: Times) -> tuple[str, str]:
    if window.watermark is None:
        return "No mark yet", "grey"
    if window.next_mark is None:
        return "Caught up with the watermark", "green"
    nobody = not details.state.readers
    tone = "amber" if tone_of(window, times, window.watermark) == "amber" else "ink"
    if window.lower is None:
        return ("No readers" if nobody else "Before the first mark"), tone
    who = "No readers: " if nobody else ""
    if window.watermark == END_OF_TIME:
        return f"{who}not at the end yet" if nobody else "Not at the end yet", tone
    behind = window.watermark - window.lower
    return f"{who}{times.distance(behind)} behind the watermark", tone


def _sentence(missing: Mapping[str, int]) -> list[Part]:
    if not missing:
        return []
    if list(missing) == [NOBODY]:
        events = plural(missing[NOBODY], "event")
        why = f"no reader owns the segments of the next {events}"
        return [{"text": f"The window stands, since {why}."}]
    parts: list[Part] = [{"text": "The window rises once these have read on: "}]
    some = list(missing.items())[:_NAMES]
    for place, (who, count) in enumerate(some):
        parts += [{"text": ", " if place else ""}, {"text": who, "name": True}]
        parts.append({"text": f" ({plural(count, 'event')})"})
    more = len(missing) - len(some)
    return [*parts, {"text": f", {grouped(more)} more." if more > 0 else "."}]


def _ruler(window: TimeWindowInfo, times: Times, now_ms: int) -> Part | None:
    """Place what is read and what is complete on a scale that ends now; None without a clock."""
    if not (times.follows_clock and times.dated) or window.watermark is None:
        return None
    scale = BehindScale.of_two_days()
    ended = window.watermark == END_OF_TIME
    lower = window.lower
    return {
        "read": 0
        if lower is None
        else 100
        if lower == END_OF_TIME
        else scale.place(now_ms - lower),
        "watermark": 100 if ended else scale.place(now_ms - window.watermark),
        "ticks": [*scale.ticks(), {"x": 100, "text": "now"}],
    }


def _segments(
    window: TimeWindowInfo,
    info: StreamInfo,
    offsets: Mapping[int, int],
    owners: Mapping[int, str],
    *,
    readers: Iterable[str],
    tone: str,
) -> list[Part]:
    """Draw the segments that are being read, those farthest behind first.

    What keeps the window back has the tone of how far back that is.
    """
    hues = hues_of(readers)
    completed = {
        one.number
        for one in info.topology.segments
        if one.sealed_length is not None and offsets.get(one.number, -1) >= one.sealed_length
    }
    cut = window.next_mark.cut if window.next_mark else {}
    rows: list[tuple[int, Part]] = []
    for one in info.topology.segments:
        number = one.number
        if number not in offsets or number in completed:
            continue
        end = one.sealed_length
        if end is None and info.tail is not None:
            end = info.tail.get(number, 0)
        offset, who = offsets[number], owners.get(number)
        wanted = cut.get(number)
        keeps_back = wanted is not None and wanted > offset
        left = None if end is None else max(0, end - offset)
        text = f"at {grouped(offset)}" if left is None else f"{grouped(left)} behind"
        part = {
            "number": number,
            "who": who or NOBODY,
            "hue": hues.get(who or NOBODY),
            "fill": _percent(offset, end),
            "wanted": _percent(wanted, end) if keeps_back and wanted is not None else None,
            "back": keeps_back,
            "tone": tone if keeps_back else "ink",
            "text": text,
        }
        rows.append((-(left or 0), part))
    rows.sort(key=lambda row: (not row[1]["back"], row[0], row[1]["number"]))
    return [part for _, part in rows]


def hues_of(readers: Iterable[str]) -> dict[str, int]:
    """Give each reader a colour of its own, as far as there are some."""
    return {name: place % HUES for place, name in enumerate(sorted(set(readers)))}


def _percent(part: int, whole: int | None) -> float:
    if whole is None:
        return 0.0
    return 100.0 if whole == 0 else round(min(100.0, 100 * part / whole), 2)


def readers_of(
    details: GroupDetails, streams: Mapping[str, StreamInfo], *, now_ms: int
) -> list[Part]:
    """Draw the readers: what each owns, and when it was last heard of."""
    rows = []
    hues = hues_of([one.reader for one in details.readers])
    for one in details.readers:
        owned = (
            details.state.readers[one.reader].owned
            if one.reader in details.state.readers
            else {}
        )
        dead = one.silent_ms > details.dead_after_ms
        slow = one.silent_ms > 2 * details.heartbeat_ms
        rows.append(
            {
                "who": one.reader,
                "hue": hues[one.reader],
                "epoch": grouped(one.epoch),
                "segments": grouped(one.segments),
                "behind": _behind_of(owned, streams),
                "heard": now_ms - one.silent_ms,
                "heard_tone": "red" if dead else "amber" if slow else "ink",
                "advanced": None if one.advanced_ms is None else now_ms - one.advanced_ms,
            }
        )
    return rows


def _behind_of(
    owned: Mapping[str, Mapping[int, int]], streams: Mapping[str, StreamInfo]
) -> str:
    total, unknown = 0, 0
    for stream, position in owned.items():
        info = streams.get(stream)
        if info is None or info.tail is None:
            unknown += bool(position)
            continue
        total += sum(max(0, info.tail.get(n, 0) - offset) for n, offset in position.items())
    if not unknown:
        return grouped(total)
    return f"at least {grouped(total)}" if total else ""


def progress_of(progress: NotedProgress | None, *, now_ms: int) -> Part | None:
    """Draw what the query reports that reads with the group; None without news."""
    if progress is None:
        return None
    times = Times.of(follows_clock=True, example=progress.bound)
    late_by = (
        "" if progress.late_by_ms is None else f", by up to {span_text(progress.late_by_ms)}"
    )
    gauges: list[tuple[str, object]] = [
        ("bound", times.moment(progress.bound) or {"text": "no mark yet"}),
        ("behind the watermark", _span(progress.lag_ms)),
        ("rows to read", _count(progress.backlog)),
        ("late rows", f"{grouped(progress.late)}{late_by}"),
        ("rows late for all their windows", grouped(progress.late_output)),
        ("rows late for some of them", grouped(progress.partially_late)),
        (
            "state",
            "unknown"
            if progress.state_bytes is None
            else f"{rounded(progress.state_bytes)} bytes",
        ),
    ]
    return {
        "reported": now_ms - progress.silent_ms,
        "gauges": [
            {"name": name, **({"text": value} if isinstance(value, str) else {"time": value})}
            for name, value in gauges
        ],
        "late_writers": _late_bars(progress.late_writers),
    }


def _span(span_ms: int | None) -> str:
    return "unknown" if span_ms is None else span_text(span_ms)


def _count(count: int | None) -> str:
    return "unknown" if count is None else grouped(count)


def _late_bars(writers: Mapping[str, int]) -> list[Part]:
    most = max(writers.values(), default=1) or 1
    ranked: Sequence[tuple[str, int]] = sorted(
        writers.items(), key=lambda one: (-one[1], one[0])
    )
    return [
        {"who": who, "text": grouped(count), "part": round(100 * count / most)}
        for who, count in ranked
    ]
