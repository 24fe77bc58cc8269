"""The segments of a stream: key ranges downwards, splits and merges to the right."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from tidegauge.wire.streams import SegmentInfo, StreamInfo
from tidegauge_dashboard.page.words import Part, grouped, plural

_MOST_OPEN = 64
_GENERATIONS = 10
_LEAST_ROWS, _MOST_ROWS = 4, 40
_MOST_LANES = 200


@dataclass(frozen=True, slots=True)
class ReaderPlace:
    """How far a group of readers is in a segment."""

    group: str
    segment: int
    offset: int


def segments_tab(
    info: StreamInfo, cut: Mapping[int, int], readers: Iterable[ReaderPlace]
) -> Part:
    """Draw the segments, blue up to the newest cut, with a line where each group is.

    A log that lives elsewhere, and one with very many open segments, is drawn as lanes.
    """
    segments = info.topology.segments
    growing = [one for one in segments if one.sealed_length is None]
    places: dict[int, list[ReaderPlace]] = {}
    for place in readers:
        places.setdefault(place.segment, []).append(place)
    ancestors = info.topology.to_topology().ancestors
    complete = frozenset(ancestors.listed(ancestors.of(cut)))
    gone = frozenset(ancestors.listed(ancestors.of(info.first_cut or ())))
    drawn = _Drawing(info, cut, places, complete, gone)
    if info.config.table is not None:
        caption = "Versions of the table, up to the newest cut"
        return {"caption": caption, "lanes": [drawn.lane(one) for one in segments]}
    if info.config.log == "external":
        caption = "Partitions of the external log, and how far the newest cut is in each"
        return {"caption": caption, "lanes": [drawn.lane(one) for one in _first(segments)]}
    if len(growing) > _MOST_OPEN:
        caption = f"The {len(growing)} open segments of {len(segments)}; {_LEGEND}"
        return {"caption": caption, "lanes": [drawn.lane(one) for one in _first(growing)]}
    caption = f"Key range downwards, splits and merges to the right; {_LEGEND}"
    return {"caption": caption, **_boxes(segments, drawn)}


_LEGEND = "blue: complete; violet: readers"


def _first(segments: Sequence[SegmentInfo]) -> Sequence[SegmentInfo]:
    return segments[:_MOST_LANES]


@dataclass(frozen=True, slots=True)
class _Drawing:
    info: StreamInfo
    cut: Mapping[int, int]
    readers: Mapping[int, Sequence[ReaderPlace]]
    complete: frozenset[int]
    gone: frozenset[int]

    def lane(self, one: SegmentInfo) -> Part:
        """Draw what is in a segment."""
        length = self._length(one)
        done = self._complete(one, length)
        return {
            "number": one.number,
            "text": self._text(one, length, done),
            "fill": _percent(done, length),
            "sealed": one.sealed_length is not None,
            "gone": one.number in self.gone,
            "readers": [
                {"x": _percent(place.offset, length), "who": place.group}
                for place in self.readers.get(one.number, ())
            ]
            if length is not None
            else [],
            "opened": one.opened_ms,
            "closed": one.sealed_ms,
        }

    def _length(self, one: SegmentInfo) -> int | None:
        if one.sealed_length is not None:
            return one.sealed_length
        return None if self.info.tail is None else self.info.tail.get(one.number, 0)

    def _complete(self, one: SegmentInfo, length: int | None) -> int:
        """How many events lie before the newest cut: all, of an ancestor of what it names."""
        if one.number in self.cut:
            return self.cut[one.number]
        return (length or 0) if one.number in self.complete else 0

    def _text(self, one: SegmentInfo, length: int | None, done: int) -> str:
        version = self.info.config.version_before({one.number: done})
        if version is not None:
            return f"up to version {grouped(version)}"
        if length is None:
            return f"{one.number} · {grouped(done)} before the cut" if done else str(one.number)
        gone = (self.info.first_cut or {}).get(one.number, 0)
        truncated = f", {grouped(gone)} truncated" if gone else ""
        if one.number in self.gone:
            return f"{one.number} · truncated"
        return f"{one.number} · {plural(length, 'event')}{truncated}"


def _boxes(segments: Sequence[SegmentInfo], drawn: _Drawing) -> Part:
    """Place segments by key range and generation; only the last generations are drawn."""
    depth: dict[int, int] = {}
    for one in segments:  # in order of number, predecessors first
        depth[one.number] = 1 + max((depth[before] for before in one.predecessors), default=-1)
    end: dict[int, int] = {}
    for one in segments:
        for before in one.predecessors:
            end[before] = min(end.get(before, depth[one.number]), depth[one.number])
    columns = 1 + max(depth.values(), default=0)
    first = max(0, columns - _GENERATIONS)
    wide = 100 / (columns - first)
    boxes = []
    least = 1.0
    for one in segments:
        until = end.get(one.number, columns)
        if until <= first or one.low is None or one.high is None:
            continue
        least = min(least, one.high - one.low)
        start = max(depth[one.number], first)
        boxes.append(
            {
                **drawn.lane(one),
                "x": round(wide * (start - first), 3),
                "wide": round(wide * (until - start), 3),
                "y": round(100 * one.low, 3),
                "high": round(100 * (one.high - one.low), 3),
                "keys": f"keys {one.low:.4g} to {one.high:.4g}",
            }
        )
    rows = min(_MOST_ROWS, max(_LEAST_ROWS, ceil(1 / least)))
    return {"boxes": boxes, "rows": rows, "older": first}


def _percent(part: int, whole: int | None) -> float:
    return 0.0 if not whole else round(min(100.0, 100 * part / whole), 2)
