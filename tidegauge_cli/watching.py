"""Following one stream: redrawn on a terminal, a line for each change elsewhere."""

import asyncio
import time
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.errors import UnavailableError
from tidegauge.wire.streams import MarkList, StreamInfo
from tidegauge.wire.writers import Watermark
from tidegauge_cli.service import Service, warn
from tidegauge_cli.tables import (
    describe_lag,
    describe_rest,
    describe_time,
    holders_of,
    lines_of,
    table_of_writers,
)

_REDRAW_S = 1.0
_WAIT_MS = 2_000
_OUTAGES = (ServiceUnreachableError, UnavailableError)


class Snapshot(NamedTuple):
    """A stream at one moment."""

    at: float
    stream: StreamInfo
    clock: Watermark

    def growth(self, last: "Snapshot") -> str:
        """Show how many events the log holds, and how fast they came since the last one."""
        if self.stream.tail is None:
            return ""
        events, before = sum(self.stream.tail.values()), sum((last.stream.tail or {}).values())
        passed_s = max(self.at - last.at, 1e-3)  # the first one is compared with itself
        return f"  events {events} ({(events - before) / passed_s:.0f}/s)"


async def watch_stream(service: Service, path: str, *, as_json: bool) -> None:
    """Follow a stream until it is sealed; an outage of the service is shown once, and waited for."""
    console = Console()
    if as_json or not console.is_terminal:
        await _print_changes(service, path, as_json=as_json)
    else:
        await _redraw(service, path, console)


async def _redraw(service: Service, path: str, console: Console) -> None:
    last = await _snapshot(service, path)
    with Live(_picture(last, last), console=console, auto_refresh=False) as live:
        while not last.clock.final:
            await asyncio.sleep(_REDRAW_S)
            try:
                now = await _snapshot(service, path)
            except _OUTAGES as error:
                live.update(Group(_picture(last, last), Text(str(error))), refresh=True)
                continue
            live.update(_picture(last, now), refresh=True)
            last = now


async def _print_changes(service: Service, path: str, *, as_json: bool) -> None:
    printed: object = None
    warned: str | None = None
    clock = await service.explain(path)
    while True:
        explanation = clock.explanation
        holders = [one.writer for one in explanation.holders]
        gist = clock.mark, explanation.reason, holders
        if gist != printed:
            printed = gist
            print(clock.model_dump_json() if as_json else explanation.in_full, flush=True)
        if clock.final:
            return
        # Asked again after the next mark, or after a while: others may hold it by then.
        after = 0 if clock.mark is None else clock.mark.revision
        try:
            await service.get(f"{path}/marks", MarkList, after=after, limit=1, wait_ms=_WAIT_MS)
            clock = await service.explain(path)
        except _OUTAGES as error:
            if str(error) != warned:
                warned = str(error)
                warn(warned)
            continue
        if warned is not None:
            warned = None
            warn("the service answers again")


async def _snapshot(service: Service, path: str) -> Snapshot:
    stream, clock = await asyncio.gather(service.get(path, StreamInfo), service.explain(path))
    return Snapshot(time.monotonic(), stream, clock)


def _picture(last: Snapshot, now: Snapshot) -> Group:
    stream, explanation = now.stream, now.clock.explanation
    follows_clock = stream.config.max_future_skew_ms is not None
    lag = describe_lag(stream.watermark, follows_clock=follows_clock)
    heading = Text.assemble(
        (stream.stream, "bold"),
        f"  watermark {describe_time(stream.watermark)}",
        f", {lag} behind the clock" if lag else "",
        f"  mark {stream.revision}{now.growth(last)}",
    )
    parts: list[RenderableType] = [heading, *map(Text, lines_of(explanation))]
    if holders := holders_of(explanation):
        parts.append(table_of_writers(holders))
    if rest := describe_rest(explanation):
        parts.append(Text(rest))
    return Group(*parts)
