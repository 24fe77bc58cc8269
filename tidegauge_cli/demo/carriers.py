"""The writers: each carrier a process, which reports its flights when they land.

They share the clock of the replay, which goes only so far ahead of those who read the flights.
"""

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from ctypes import c_int64
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, inf
from multiprocessing import get_context, parent_process
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias

import pandas as pd

from reader_client import StreamClient
from tidegauge.event_time import describe_event_time
from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.flights import HOUR_MS
from tidegauge_cli.demo.waiting import DemoFailedError, wait_until
from writer_client import Writer

# Of a stream whose event time runs thousands of times as fast as usual, or stands: a carrier
# holds it while a flight is in the air, for longer than a minute if the replay is slow.
REPLAYED = {
    "mark_interval_ms": 50,
    "mark_resolution_ms": 60_000,
    "aggregation_timeout_ms": None,
    "hold_limit_ms": None,
}
_TICK_S = 0.2

_Row: TypeAlias = tuple[str, float, int, int]
"""Origin, delay, departed, landed."""


class ReplayClock:
    """Event time that runs at a multiple of wall clock to its end, except while it has to wait.

    One process turns it; those that report flights read the same memory. It starts from the time
    that is there; from its end on, where it stops for good, no time is counted. The speed is in
    seconds of replay in one second; ``at_s`` is a monotonic clock, now.
    """

    def __init__(self, time_ms: c_int64, *, end_ms: int, speed: float, at_s: float) -> None:
        self.start_ms = time_ms.value
        self.end_ms = end_ms
        self.waited_s = 0.0
        self._time_ms = time_ms
        self._speed = speed
        self._started_s = self._turned_s = at_s

    @property
    def now_ms(self) -> int:
        """Where it stands."""
        return self._time_ms.value

    @property
    def ran_s(self) -> float:
        """Wall clock since it started, until it was last turned."""
        return self._turned_s - self._started_s

    @property
    def mean_speed(self) -> float:
        """Seconds of replay in one second so far."""
        return (self.now_ms - self.start_ms) / 1_000 / self.ran_s

    def turn(self, at_s: float, *, limit_ms: int) -> None:
        """Go on by what has passed since the last time, but not beyond a limit or the end."""
        if self.now_ms >= self.end_ms:
            return
        passed_s = at_s - self._turned_s
        self._turned_s = at_s
        go_ms = passed_s * self._speed * 1_000  # may be infinite
        room_ms = max(0, min(limit_ms, self.end_ms) - self.now_ms)
        if room_ms < go_ms:
            self.waited_s += passed_s * (1 - room_ms / go_ms)
        self._time_ms.value += int(min(go_ms, room_ms))


@dataclass(frozen=True, slots=True)
class Pace:
    """Divides flights evenly over about so many batches of a query, however slow those are."""

    _landed: Sequence[int]
    batches: int

    def limit_ms(self, read: int, batches: int) -> int:
        """Find how far the clock may go while so many flights are in so many finished batches."""
        batches_left = max(1, self.batches - batches)
        beyond = read + max(1, ceil((len(self._landed) - read) / batches_left))
        if beyond >= len(self._landed):
            return self._landed[-1]
        return max(self._landed[read], self._landed[beyond] - 1)


class Carriers:
    """The processes of the writers: one a carrier, which registers and reports what has landed.

    What an interrupted replay has stored is not reported again. All of them read the time of the
    replay; it stands until somebody turns it.
    """

    def __init__(self, flights: pd.DataFrame, address: StreamAddress) -> None:
        context: ForkServerContext = get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self.address = address
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
        self, clock: ReplayClock, *, show: Callable[[], None], limit_ms: Callable[[], int]
    ) -> None:
        """Turn the clock, as far as it may go each time, until every flight has landed."""

        def go_on() -> None:
            self.check()
            clock.turn(time.monotonic(), limit_ms=limit_ms())

        def done() -> bool:
            return not any(process.is_alive() for process in self.processes)

        wait_until(done, "the carriers", go_on=go_on, show=show, patience_s=inf)

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


def describe_progress(address: StreamAddress, clock: ReplayClock) -> str:
    """Say where the replay and the watermark of its stream stand."""
    stream = address.describe()
    if stream is None:
        return f"{_minute(clock.now_ms)}  {address.stream} was deleted"
    stands = "none yet"
    if stream.watermark is not None:
        behind_h = (clock.now_ms - stream.watermark) / HOUR_MS
        stands = f"{_minute(stream.watermark)} ({behind_h:.1f} h behind)"
    rows = sum((stream.tail or {}).values())
    return f"{_minute(clock.now_ms)}  watermark {stands}  {rows} rows"


def _minute(time_ms: int) -> str:
    return describe_event_time(time_ms)[5:16].replace("T", " ")
