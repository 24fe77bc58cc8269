"""The writers: each carrier a process, which reports its flights when they land."""

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from ctypes import c_int64
from itertools import accumulate
from math import inf
from multiprocessing import get_context, parent_process
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias

import pandas as pd

from reader_client import StreamClient
from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.replay import ReplayClock
from tidegauge_cli.demo.waiting import DemoFailedError, wait_until
from writer_client import Writer

_TICK_S = 0.2

_Row: TypeAlias = tuple[str, float, int, int]
"""Origin, delay, departed, landed."""


class Carriers:
    """The processes of the writers: one a carrier, which registers and reports what has landed.

    What an interrupted replay has stored is not reported again. All of them read the time of the
    replay; it stands until somebody turns it.
    """

    def __init__(self, flights: pd.DataFrame, address: StreamAddress) -> None:
        context: ForkServerContext = get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._registered = context.Queue()
        # Without a lock: one that a process which is ended holds would never be free again.
        self.time_ms = context.RawValue(c_int64, int(flights["departed"].min()))
        self.processes: list[BaseProcess] = []
        for carrier, own in flights.groupby("carrier"):
            columns = (own[name] for name in ("origin", "delay", "departed", "landed"))
            rows = list(zip(*columns, strict=True))
            process = context.Process(
                target=_run_carrier,
                args=(carrier, rows, address, self._registered, self.time_ms),
                name=f"carrier-{carrier}",
                daemon=True,
            )
            process.start()
            self.processes.append(process)

    def replay(
        self,
        clock: ReplayClock,
        *,
        show: Callable[[], None],
        limit_ms: Callable[[], int],
    ) -> None:
        """Turn the clock, as far as it may go each time, until every flight has landed."""

        def go_on() -> None:
            self.check()
            clock.turn(time.monotonic(), limit_ms=limit_ms())

        wait_until(
            lambda: not any(process.is_alive() for process in self.processes),
            "the carriers",
            go_on=go_on,
            show=show,
            patience_s=inf,
        )

    @property
    def all_registered(self) -> bool:
        """Whether every carrier is known to the stream."""
        return self._registered.qsize() == len(self.processes)

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
    return [*accumulate((departed for _, _, departed, _ in reversed(rows)), min)][::-1]


def _run_carrier(
    carrier: str,
    rows: list[_Row],
    address: StreamAddress,
    registered: Any,  # noqa: ANN401 (a queue)
    time_ms: c_int64,
) -> None:
    """Report flights as they land, and note the departure of the oldest one in the air."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    writer = Writer(address.url, address.stream, carrier, token=address.token)
    writer.open()
    # Not before: now a former incarnation stores nothing any more.
    rows = _unstored(carrier, rows, address)
    registered.put(carrier)
    oldest = oldest_unreported(rows)
    at = 0
    noted = None
    while at < len(rows) and parent is not None and parent.is_alive():
        now_ms = time_ms.value
        while at < len(rows) and rows[at][3] <= now_ms:
            key, value = _event(carrier, rows[at])
            writer.write(value, key=key, event_time=rows[at][2])
            at += 1
        note_ms = now_ms if at == len(rows) else min(now_ms, oldest[at])
        if note_ms != noted:
            writer.note_time(note_ms)
            noted = note_ms
        time.sleep(_TICK_S)
    writer.leave()


def _event(carrier: str, row: _Row) -> tuple[str, bytes]:
    origin, delay, _, landed = row
    flight = {"origin": origin, "delay": delay, "landed": landed}
    return f"{carrier}-{origin}", json.dumps(flight).encode()


def _unstored(carrier: str, rows: list[_Row], address: StreamAddress) -> list[_Row]:
    """Leave out the flights that an interrupted replay has stored."""
    stored: Counter[tuple[str, bytes]] = Counter()
    with StreamClient(address.url, address.stream, token=address.token) as stream:
        for segment, end in (stream.tail().tail or {}).items():
            for events in stream.read(segment, 0, end):
                columns = (events.batch.column(one).to_pylist() for one in ("key", "value"))
                found = zip(*columns, strict=True)
                stored.update(one for one in found if one[0].startswith(f"{carrier}-"))
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
