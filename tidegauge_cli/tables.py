"""What the operator's verbs print: a table for people, a JSON document for programs."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel
from pydantic_core import to_json
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegauge.event_time import END_OF_TIME, describe_event_time, describe_span
from tidegauge.wire.groups import GroupInfo
from tidegauge.wire.streams import MarkInfo, StreamInfo
from tidegauge.wire.writers import WriterInfo

_STATE_STYLE = {"behind": "yellow", "joining": "yellow", "expired": "red", "left": "dim"}
_WIDTH_OF_A_PIPE = 240
_LEAST_WIDTH = {
    "writer": 10,
    "state": 7,
    "stream": 12,
    "group": 12,
    "position": 8,
    "cut": 8,
} | dict.fromkeys(("watermark", "noted", "lower", "upper"), 24)

_T = TypeVar("_T", bound=BaseModel)


def show(found: Sequence[_T], table: Callable[[Iterable[_T]], Table], *, as_json: bool) -> None:
    """Print what was found."""
    if as_json:
        show_json(found)
    else:
        console = Console()
        if not console.is_terminal:
            console.width = _WIDTH_OF_A_PIPE
        console.print(table(found))


def show_json(value: BaseModel | Sequence[BaseModel] | Mapping[str, object]) -> None:
    """Print one JSON document."""
    print(to_json(value, indent=2).decode())


def table_of_streams(streams: Iterable[StreamInfo]) -> Table:
    """Show streams, one a line."""
    table = _table("stream", "watermark", "behind", "marks", "segments", "events", "log")
    for one in streams:
        table.add_row(
            one.stream,
            describe_time(one.watermark),
            describe_lag(one),
            str(one.revision),
            str(len(one.topology.segments)),
            "" if one.tail is None else str(sum(one.tail.values())),
            one.config.log,
        )
    return table


def table_of_writers(writers: Iterable[WriterInfo]) -> Table:
    """Show writers, one a line."""
    table = _table(
        "writer", "state", "incarnation", "noted", "behind", "silent", "expires", "position"
    )
    for one in writers:
        table.add_row(
            one.writer,
            Text(one.state, style=_STATE_STYLE.get(one.state, "green")),
            str(one.incarnation),
            describe_time(one.time),
            _span(one.behind_ms),
            _span(one.silent_ms),
            _span(one.expires_in_ms),
            describe_position(one.position),
        )
    return table


def table_of_marks(marks: Iterable[MarkInfo]) -> Table:
    """Show marks, one a line."""
    table = _table("revision", "lower", "upper", "cut")
    for one in marks:
        cut = describe_position(one.cut)
        table.add_row(
            str(one.revision), describe_time(one.lower), describe_time(one.upper), cut
        )
    return table


def table_of_groups(groups: Iterable[GroupInfo]) -> Table:
    """Show reader groups, a line for each reader."""
    table = _table("group", "streams", "reader", "segments", "unassigned")
    for one in groups:
        streams, unassigned = ", ".join(one.streams), str(_count(one.state.unassigned))
        if not one.state.readers:
            table.add_row(one.group, streams, "", "", unassigned)
        for name, reader in one.state.readers.items():
            table.add_row(one.group, streams, name, str(_count(reader.owned)), unassigned)
    return table


def describe_time(time_ms: int | None) -> str:
    """Show an event time, or that there is none."""
    return "none yet" if time_ms is None else describe_event_time(time_ms)


def describe_lag(stream: StreamInfo) -> str:
    """Show how far the watermark is behind this machine's clock, if it follows a clock."""
    follows_clock = stream.config.max_future_skew_ms is not None
    if stream.watermark in {None, END_OF_TIME} or not follows_clock:
        return ""
    return describe_span(round(time.time() * 1_000) - (stream.watermark or 0))


def _span(span_ms: int | None) -> str:
    return "" if span_ms is None else describe_span(span_ms)


def describe_position(position: Mapping[int, int]) -> str:
    """Show the first segments of a position, and how many more there are."""
    shown = [f"{number}:{offset}" for number, offset in sorted(position.items())[:8]]
    more = len(position) - len(shown)
    return ",".join(shown) + (f" and {more} more" if more else "")


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold dim")
    for header in headers:
        width = _LEAST_WIDTH.get(header)
        table.add_column(header, no_wrap=width is not None, min_width=width)
    return table


def _count(offsets: Mapping[str, Mapping[int, int]]) -> int:
    return sum(len(segments) for segments in offsets.values())
