"""The writers: each carrier a process, which reports its flights when they land."""

import json
import os
import signal
import sys
import time
from collections import Counter
from ctypes import c_int64
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias

import pandas as pd

from reader_client import StreamClient
from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.waiting import DemoFailedError
from writer_client import Writer

_TICK_S = 0.2

_Row: TypeAlias = tuple[str, float, int, int]


def start_carriers(flights: pd.DataFrame, address: StreamAddress) -> "Carriers":
    """Start a process a carrier; each registers and then reports what has landed.

    What an interrupted replay has stored is not reported again.
    """
    context: ForkServerContext = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    carriers = sorted(flights["carrier"].unique())
    registered = context.Queue()
    # Without a lock: one that a process which is ended holds would never be free again.
    time_ms = context.RawValue(c_int64, int(flights["departed"].min()))
    processes: list[BaseProcess] = []
    for carrier in carriers:
        own = flights[flights["carrier"] == carrier]
        rows = list(
            zip(own["origin"], own["delay"], own["departed"], own["landed"], strict=True)
        )
        process = context.Process(
            target=_run_carrier,
            args=(carrier, rows, address, registered, time_ms, os.getpid()),
            name=f"carrier-{carrier}",
            daemon=True,
        )
        process.start()
        processes.append(process)
    return Carriers(processes, registered, time_ms)


@dataclass(frozen=True, slots=True)
class Carriers:
    """The processes of the writers.

    Attributes
    ----------
    processes
        One a carrier.
    registered
        A queue in which each says that it has registered.
    time_ms
        The time of the replay, for all of them to read; it stands until somebody turns it.
    """

    processes: list[BaseProcess]
    registered: Any
    time_ms: c_int64

    @property
    def all_registered(self) -> bool:
        """Whether every carrier is known to the stream."""
        return bool(self.registered.qsize() == len(self.processes))

    @property
    def any_alive(self) -> bool:
        """Whether any carrier still reports."""
        return any(process.is_alive() for process in self.processes)

    def check(self) -> None:
        """Raise `DemoFailedError` if a process ended with an error."""
        failed = [process.name for process in self.processes if process.exitcode]
        if failed:
            msg = f"these carriers failed: {', '.join(failed)}"
            raise DemoFailedError(msg)

    def end(self) -> None:
        """End all of them, finished or not."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join()


def oldest_unreported(rows: list[_Row]) -> list[int]:
    """Find, for each place in the order of landing, the earliest departure from there on."""
    oldest: list[int] = []
    for _, _, departed, _ in reversed(rows):
        oldest.append(min(departed, oldest[-1]) if oldest else departed)
    return oldest[::-1]


def _run_carrier(  # noqa: PLR0913, PLR0917 (what a process is given)
    carrier: str,
    rows: list[_Row],
    address: StreamAddress,
    registered: Any,  # noqa: ANN401 (a queue)
    time_ms: c_int64,
    parent: int,
) -> None:
    """Report flights as they land, and note the departure of the oldest one in the air."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    writer = Writer(address.url, address.stream, carrier, token=address.token)
    writer.open()
    # Not before: now a former incarnation stores nothing any more.
    rows = _unstored(carrier, rows, address)
    registered.put(carrier)
    oldest = oldest_unreported(rows)
    at = 0
    noted = None
    while at < len(rows) and _is_alive(parent):
        now_ms = time_ms.value
        while at < len(rows) and rows[at][3] <= now_ms:
            _report(writer, carrier, rows[at])
            at += 1
        note_ms = now_ms if at == len(rows) else min(now_ms, oldest[at])
        if note_ms != noted:
            writer.note_time(note_ms)
            noted = note_ms
        time.sleep(_TICK_S)
    writer.leave()


def _is_alive(parent: int) -> bool:
    try:
        os.kill(parent, 0)
    except ProcessLookupError:
        return False
    return True


def _report(writer: Writer, carrier: str, row: _Row) -> None:
    key, value = _event(carrier, row)
    writer.write(value, key=key, event_time=row[2])


def _event(carrier: str, row: _Row) -> tuple[str, bytes]:
    origin, delay, _, landed = row
    flight = {"origin": origin, "delay": delay, "landed": landed}
    return f"{carrier}-{origin}", json.dumps(flight).encode()


def _unstored(carrier: str, rows: list[_Row], address: StreamAddress) -> list[_Row]:
    """Leave out the flights that an interrupted replay has stored."""
    stored = _stored(carrier, address)
    left: list[_Row] = []
    for row in rows:
        event = _event(carrier, row)
        if stored[event]:
            stored[event] -= 1
        else:
            left.append(row)
    if stored.total():
        sys.exit(
            f"{address.stream} has flights of {carrier} that do not belong to this replay; "
            f"begin anew: tidegauge delete {address.stream} --yes"
        )
    return left


def _stored(carrier: str, address: StreamAddress) -> Counter[tuple[str, bytes]]:
    """Count the events of a carrier."""
    found: Counter[tuple[str, bytes]] = Counter()
    with StreamClient(address.url, address.stream, token=address.token) as stream:
        for segment, end in (stream.tail().tail or {}).items():
            for events in stream.read(segment, 0, end):
                columns = (events.batch.column(one).to_pylist() for one in ("key", "value"))
                found.update(
                    event
                    for event in zip(*columns, strict=True)
                    if event[0].startswith(f"{carrier}-")
                )
    return found
