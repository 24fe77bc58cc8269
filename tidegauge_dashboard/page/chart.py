"""The tide chart, the strip of who held, and the race of the slowest writers."""

from collections.abc import Mapping, Sequence
from itertools import chain
from zlib import crc32

from tidegauge.event_time import END_OF_TIME, describe_event_time
from tidegauge.explain.states import Tone
from tidegauge.wire.writers import WriterInfo
from tidegauge_dashboard.history import NOBODY, History, Holders, Samples
from tidegauge_dashboard.page.scales import BehindScale
from tidegauge_dashboard.page.words import Part, Times, grouped, plural, span_text

COLUMNS = 300
SPANS_S = (300, 1_200, 3_600)
HUES = 12
_RACERS = 14
_LINES = 8
_FARTHEST = 2**52
_FAR = 4
"""A writer lies far below if it makes the chart so many times as high."""
NOT_WATCHED = "not watched"
_NOT_KEPT = f"{NOT_WATCHED}, or longer ago than is kept"


def grid_of(now_ms: int, span_s: int) -> list[int]:
    """List the moments that are drawn, on the second, so that columns keep their place."""
    step_ms = 1_000 * span_s // COLUMNS
    end_ms = now_ms - now_ms % step_ms + step_ms
    return [end_ms - step_ms * (COLUMNS - at) for at in range(COLUMNS + 1)]


def chart_of(
    grid: Sequence[int],
    watermarks: History,
    fronts: Samples,
    stands: Mapping[str, Samples],
    *,
    now_ms: int,
    holder: str | None,
    tone: Tone | None,
    times: Times,
) -> Part:
    """Draw event time over wall clock: the watermark, the front, the slowest writers.

    A holder is drawn in a tone. All values are offsets to a base, which is text: JavaScript cannot hold 64 bits.
    """
    lower = list(watermarks.at(grid))
    front = [
        None if high is None or low is None else max(high, low)
        for high, low in zip(fronts.at(grid, now_ms=now_ms), lower, strict=True)
    ]
    lines = {
        name: list(stands[name].at(grid, now_ms=now_ms)) for name in _drawn(stands, holder)
    }
    known = [*lower[::-1], *front, *chain(*lines.values())]
    base = next((one for one in known if one is not None), None)
    if base is None:
        base = grid[0] if times.follows_clock else 0
    water = _range([lower, front])
    deep = _range([lower, front, *lines.values()])
    return {
        "x": [at // 1_000 for at in grid],
        "base": str(base),
        "dated": times.dated,
        "clock": times.follows_clock,
        "lower": _offsets(lower, base),
        "front": _offsets(front, base),
        "unseen": _offsets(_unseen(grid, lower, front, times), base),
        "lines": [
            {
                "name": name,
                "y": _offsets(values, base),
                "tone": tone if name == holder else None,
            }
            for name, values in lines.items()
        ],
        "water": _pair(water, base),
        "deep": _pair(deep, base),
        "far": _is_far(water, deep),
        "empty": all(one is None for one in lower),
        "holder": holder,
        "tone": tone if holder else None,
        "text": _text_of(grid, lower, front, now_ms=now_ms, holder=holder, times=times),
    }


def _text_of(
    grid: Sequence[int],
    lower: Sequence[int | None],
    front: Sequence[int | None],
    *,
    now_ms: int,
    holder: str | None,
    times: Times,
) -> str:
    """Describe what the chart shows, for those who do not see it; moments are UTC."""
    span = span_text(grid[-1] - grid[0])
    known = [one for one in lower if one is not None]
    if not known:
        return f"Event time over the last {span}: no mark yet."
    newest, rose = known[-1], known[-1] - known[0]
    words = f"Event time over the last {span}: the watermark "
    words += f"rose by {times.distance(rose)} to" if rose else "stayed at"
    words += f" {describe_event_time(newest) if times.dated else grouped(newest)}"
    if times.follows_clock and times.dated and newest <= now_ms:
        words += f", {times.distance(now_ms - newest)} before now"
    first = next((one for one in reversed(front) if one is not None), newest)
    if first > newest:
        words += f"; writers noted times up to {times.distance(first - newest)} later"
    return words + (f"; held by {holder}." if holder else ".")


def _unseen(
    grid: Sequence[int],
    lower: Sequence[int | None],
    front: Sequence[int | None],
    times: Times,
) -> list[int | None]:
    """Return how far writers may have noted where nobody saw it: as far as later, or the clock."""
    follows = times.follows_clock and times.dated
    tops: list[int | None] = []
    later: int | None = None
    for at, low, high in zip(grid[::-1], lower[::-1], front[::-1], strict=True):
        later = later if high is None else high
        if low is None or high is not None or later is None:
            tops.append(None)
        else:
            tops.append(max(low, min(later, at) if follows else later))
    return tops[::-1]


def _drawn(stands: Mapping[str, Samples], holder: str | None) -> list[str]:
    """Choose whose lines are drawn: the holder's, and those that stand lowest."""

    def stand(name: str) -> int:
        return stands[name].newest or 0

    names = sorted(stands, key=lambda name: (name != holder, stand(name), name))
    return names[:_LINES]


def _range(lines: Sequence[Sequence[int | None]]) -> tuple[int, int] | None:
    known = [value for line in lines for value in line if value is not None]
    return (min(known), max(known)) if known else None


def _is_far(water: tuple[int, int] | None, deep: tuple[int, int] | None) -> bool:
    if water is None or deep is None:
        return False
    return deep[1] - deep[0] > _FAR * max(water[1] - water[0], 60_000)


def _pair(bounds: tuple[int, int] | None, base: int) -> list[int] | None:
    """Return both bounds as offsets; None if a browser cannot hold one of them."""
    if bounds is None:
        return None
    low, high = (bound - base for bound in bounds)
    return None if low < -_FARTHEST or high > _FARTHEST else [low, high]


def _offsets(values: Sequence[int | None], base: int) -> list[int | None]:
    return [
        None if value is None or abs(value - base) > _FARTHEST else value - base
        for value in values
    ]


def held_by(holders: Holders, grid: Sequence[int], *, now_ms: int) -> list[Part]:
    """Draw one block a holder, on the axis of the chart, in percent; one hue a name.

    A block without a hue says that nobody watched.
    """
    from_ms, wide_ms = grid[0], grid[-1] - grid[0]
    blocks = []
    for start, end, place in holders.samples.spans(from_ms, min(now_ms, grid[-1])):
        if place == NOBODY:
            continue
        who = None if place is None else holders.names[place]
        blocks.append(
            {
                "who": who or (_NOT_KEPT if start == from_ms else NOT_WATCHED),
                "x": round(100 * (start - from_ms) / wide_ms, 2),
                "wide": round(100 * (end - start) / wide_ms, 2),
                "hue": None if who is None else hue_of(who),
            }
        )
    return blocks


def hue_of(name: str) -> int:
    """Choose the colour of a name, the same on every page."""
    return crc32(name.encode()) % HUES


def race_of(
    writers: Sequence[WriterInfo],
    live: int,
    *,
    watermark: int | None,
    holder: str | None,
    tone: Tone | None,
    times: Times,
) -> Part | None:
    """Draw how far the slowest are behind whoever is first, and where the watermark stands.

    Parameters
    ----------
    writers
        The slowest first.
    live
        How many there are in all.
    holder, tone
        Who holds the watermark for too long, and how that is drawn.
    """
    racers = writers[:_RACERS]
    if not racers:
        return None
    behinds = [one.behind_ms for one in writers if one.behind_ms is not None]
    scale = BehindScale.of(behinds, dated=times.dated)
    rows = [
        {
            "who": one.writer,
            "x": 0 if one.behind_ms is None else scale.place(one.behind_ms),
            "text": _behind_text(one.behind_ms, times),
            "tone": tone if one.writer == holder else None,
        }
        for one in racers
    ]
    rest = max(0, live - len(racers))
    next_behind = next(
        (one.behind_ms for one in writers[_RACERS:] if one.behind_ms is not None),
        racers[-1].behind_ms or 0,
    )
    return {
        "rows": rows,
        "water": _water_at(racers, watermark, scale),
        "others": {"text": plural(rest, "other"), "x": scale.place(next_behind)}
        if rest
        else None,
        "ticks": scale.ticks(),
    }


def _behind_text(behind: int | None, times: Times) -> str:
    if behind is None:
        return "nowhere yet"
    return f"−{times.distance(behind)}" if behind else "first"  # noqa: RUF001 (a minus sign)


def _water_at(
    racers: Sequence[WriterInfo], watermark: int | None, scale: BehindScale
) -> float | None:
    if watermark is None or watermark == END_OF_TIME:
        return None
    placed = [(one.stand, one.behind_ms) for one in racers]
    noted = [(stand, behind) for stand, behind in placed if stand is not None and behind]
    if not noted:
        return scale.place(0)
    first = sum(noted[0])
    # the writers are of a moment ago: the watermark is never ahead of the slowest
    return scale.place(max(first - watermark, *(behind for _, behind in noted)))
