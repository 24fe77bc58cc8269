"""Following one stream: redrawn on a terminal, a line for each change elsewhere."""

import asyncio
import time
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tidegauge.client.transport import ServiceUnreachableError
from tidegauge.errors import UnavailableError
from tidegauge.wire.streams import MarkList, StreamInfo
from tidegauge.wire.writers import Watermark
from tidegauge_cli.service import Service, warn
from tidegauge_cli.tables import (
    describe_lag,
    describe_rest,
    describe_time,
    holders_of,
    table_of_writers,
)

_REDRAW_S = 1.0
_WAIT_MS = 2_000
_OUTAGES = (ServiceUnreachableError, UnavailableError)


class Look(NamedTuple):
    """What a stream looked like at one moment."""

    at: float
    stream: StreamInfo
    clock: Watermark

    @property
    def events(self) -> int:
        """How many events the log holds."""
        return sum((self.stream.tail or {}).values())


async def watch_stream(service: Service, path: str, *, as_json: bool) -> None:
    """Follow a stream until it is sealed; an outage of the service is told once, and waited for."""
    console = Console()
    if as_json or not console.is_terminal:
        await _tell_changes(service, path, as_json=as_json)
    else:
        await _redraw(service, path, console)


async def _redraw(service: Service, path: str, console: Console) -> None:
    last = await _look(service, path)
    with Live(_picture(last, last), console=console, auto_refresh=False) as live:
        while not last.clock.final:
            await asyncio.sleep(_REDRAW_S)
            try:
                now = await _look(service, path)
            except _OUTAGES as error:
                live.update(Group(_picture(last, last), Text(str(error))), refresh=True)
                continue
            live.update(_picture(last, now), refresh=True)
            last = now


async def _tell_changes(service: Service, path: str, *, as_json: bool) -> None:
    told: object = None
    warned: str | None = None
    clock = await service.get(f"{path}/watermark", Watermark)
    while True:
        if _gist(clock) != told:
            told = _gist(clock)
            _tell(clock, as_json=as_json)
        if clock.final:
            return
        try:
            clock = await _next(service, path, clock)
        except _OUTAGES as error:
            if str(error) != warned:
                warned = str(error)
                warn(warned)
            continue
        if warned is not None:
            warned = None
            warn("the service answers again")


async def _next(service: Service, path: str, clock: Watermark) -> Watermark:
    """Look again after the next mark, or after a while: others may hold it by then."""
    revision = 0 if clock.mark is None else clock.mark.revision
    await service.get(f"{path}/marks", MarkList, after=revision, limit=1, wait_ms=_WAIT_MS)
    return await service.get(f"{path}/watermark", Watermark)


def _gist(clock: Watermark) -> object:
    explanation = clock.explanation
    holders = [one.writer for one in explanation.holders]
    return clock.mark, explanation.reason, holders


def _tell(clock: Watermark, *, as_json: bool) -> None:
    if as_json:
        print(clock.model_dump_json(), flush=True)
    else:
        print(clock.explanation.sentence, flush=True)


async def _look(service: Service, path: str) -> Look:
    stream, clock = await asyncio.gather(
        service.get(path, StreamInfo), service.get(f"{path}/watermark", Watermark)
    )
    return Look(time.monotonic(), stream, clock)


def _picture(last: Look, now: Look) -> Group:
    stream, explanation = now.stream, now.clock.explanation
    lag = describe_lag(stream)
    heading = Text.assemble(
        (stream.stream, "bold"),
        f"  watermark {describe_time(stream.watermark)}",
        f", {lag} behind the clock" if lag else "",
        f"  mark {stream.revision}{_growth(last, now)}",
    )
    parts: list[RenderableType] = [heading, Text(explanation.sentence)]
    if explanation.hint is not None:
        parts.append(Text(explanation.hint, style="yellow"))
    if holders := holders_of(explanation):
        parts.append(table_of_writers(holders))
    if rest := describe_rest(explanation):
        parts.append(Text(rest))
    return Group(*parts)


def _growth(last: Look, now: Look) -> str:
    if now.stream.tail is None:
        return ""
    passed_s = max(now.at - last.at, 1e-3)
    rate = 0.0 if now is last else (now.events - last.events) / passed_s
    return f"  events {now.events} ({rate:.0f}/s)"
