"""Following one stream: redrawn on a terminal, a line for each change elsewhere."""

import asyncio
import time
from typing import NamedTuple, NoReturn

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tidegauge.wire.streams import StreamInfo, Tail
from tidegauge.wire.writers import Watermark
from tidegauge_cli.service import Service
from tidegauge_cli.tables import describe_lag, describe_time, table_of_writers

_REDRAW_S = 1.0
_WAIT_MS = 30_000


class Look(NamedTuple):
    """What a stream looked like at one moment."""

    at: float
    stream: StreamInfo
    clock: Watermark

    @property
    def events(self) -> int:
        """How many events the log holds."""
        return sum((self.stream.tail or {}).values())


async def watch_stream(service: Service, path: str, *, as_json: bool) -> NoReturn:
    """Follow a stream until interrupted."""
    console = Console()
    if as_json or not console.is_terminal:
        await _tell_changes(service, path, as_json=as_json)
    await _redraw(service, path, console)


async def _redraw(service: Service, path: str, console: Console) -> NoReturn:
    last = await _look(service, path)
    with Live(_picture(last, last), console=console, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(_REDRAW_S)
            now = await _look(service, path)
            live.update(_picture(last, now), refresh=True)
            last = now


async def _tell_changes(service: Service, path: str, *, as_json: bool) -> NoReturn:
    revision = -1
    while True:
        clock = await service.get(f"{path}/watermark", Watermark)
        newest = 0 if clock.mark is None else clock.mark.revision
        if newest != revision:
            revision = newest
            _tell(clock, as_json=as_json)
        await service.get(f"{path}/tail", Tail, revision=revision, wait_ms=_WAIT_MS)


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
    stream = now.stream
    passed_s = max(now.at - last.at, 1e-3)
    rate = 0.0 if now is last else (now.events - last.events) / passed_s
    lag = describe_lag(stream)
    heading = Text.assemble(
        (stream.stream, "bold"),
        f"  watermark {describe_time(stream.watermark)}",
        f", {lag} behind the clock" if lag else "",
        f"  mark {stream.revision}  events {now.events} ({rate:.0f}/s)",
    )
    return Group(
        heading,
        Text(now.clock.explanation.sentence),
        table_of_writers(now.clock.explanation.holders),
    )
