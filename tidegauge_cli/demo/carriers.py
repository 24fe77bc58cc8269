"""The writers: each carrier a process, which reports its flights when they land."""

import json
import os
import signal
import time
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from typing import Any

import pandas as pd

from tidegauge_cli.demo.replay import ReplayClock
from writer_client import Writer

_TICK_S = 0.05
_PATIENCE_S = 60


def start_carriers(
    flights: pd.DataFrame, url: str, stream: str
) -> tuple[list[BaseProcess], Barrier, Any]:
    """Start a process a carrier; each registers and then waits for the replay.

    Returns
    -------
    tuple
        The processes; a barrier at which all of them and the caller meet once all are
        registered; and a queue that takes the `ReplayClock` for each of them.
    """
    context: ForkServerContext = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    carriers = sorted(flights["carrier"].unique())
    registered = context.Barrier(len(carriers) + 1)
    clocks = context.Queue()
    processes: list[BaseProcess] = []
    for carrier in carriers:
        own = flights[flights["carrier"] == carrier]
        rows = list(
            zip(own["origin"], own["delay"], own["departed"], own["landed"], strict=True)
        )
        process = context.Process(
            target=_run_carrier,
            args=(carrier, rows, url, stream, registered, clocks, os.getpid()),
            name=f"carrier-{carrier}",
            daemon=True,
        )
        process.start()
        processes.append(process)
    return processes, registered, clocks


def oldest_unreported(rows: list[tuple[str, float, int, int]]) -> list[int]:
    """Find, for each place in the order of landing, the earliest departure from there on."""
    oldest: list[int] = []
    for _, _, departed, _ in reversed(rows):
        oldest.append(min(departed, oldest[-1]) if oldest else departed)
    return oldest[::-1]


def _run_carrier(  # noqa: PLR0913 (what a process is given)
    carrier: str,
    rows: list[tuple[str, float, int, int]],
    url: str,
    stream: str,
    registered: Barrier,
    clocks: Any,  # noqa: ANN401 (a queue)
    parent: int,
) -> None:
    """Report flights as they land, and note the departure of the oldest one in the air."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    writer = Writer(url, stream, carrier)
    writer.open()
    registered.wait(_PATIENCE_S)
    clock: ReplayClock = clocks.get(timeout=_PATIENCE_S)
    oldest = oldest_unreported(rows)
    at = 0
    noted = None
    while at < len(rows) and _is_alive(parent):
        now_ms = clock.now_ms()
        while at < len(rows) and rows[at][3] <= now_ms:
            _report(writer, carrier, rows[at])
            at += 1
        time_ms = now_ms if at == len(rows) else min(now_ms, oldest[at])
        if time_ms != noted:
            writer.note_time(time_ms)
            noted = time_ms
        time.sleep(_TICK_S)
    writer.leave()


def _is_alive(parent: int) -> bool:
    try:
        os.kill(parent, 0)
    except ProcessLookupError:
        return False
    return True


def _report(writer: Writer, carrier: str, row: tuple[str, float, int, int]) -> None:
    origin, delay, departed, landed = row
    flight = {"origin": origin, "delay": delay, "landed": landed}
    writer.write(json.dumps(flight), key=f"{carrier}-{origin}", event_time=departed)
