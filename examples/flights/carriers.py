"""The writers: each carrier a process, which reports its flights when they land.

They share the clock of the replay, which goes only so far ahead of those who read the flights.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ctypes import c_bool, c_int64
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, inf
from multiprocessing import get_context, parent_process
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Protocol, TypeAlias

import pandas as pd

from examples.flights.address import StreamAddress
from examples.flights.data import HOUR_MS
from examples.flights.waiting import DemoFailedError, wait_until
from reader_client import StreamClient
from tidegauge.event_time import describe_event_time
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


class FlightLog(Protocol):
    """Where one carrier writes, from a process of its own."""

    begin_anew: str
    """How to do away with what is stored, to be typed."""

    def open(self) -> None:
        """Register: from now on a former process of this carrier stores nothing any more."""

    def stored(self) -> Iterable[tuple[str, bytes]]:
        """Read the key and value of everything that is stored, of all carriers."""

    def write(self, value: bytes, *, key: str, event_time: int) -> None:
        """Write a flight."""

    def note_time(self, time: int) -> None:
        """Promise that whatever is written from now on left at this time or later."""

    def leave(self) -> None:
        """Wait until all is stored and noted, and go."""


OpenLog: TypeAlias = Callable[[StreamAddress, str], FlightLog]
"""Makes the log of a carrier, given its name."""


class StreamLog:
    """The log of the service: a `FlightLog`."""

    def __init__(self, address: StreamAddress, carrier: str) -> None:
        self.begin_anew = f"tidegauge delete {address.stream} --yes"
        self._address = address
        writer = Writer(address.url, address.stream, carrier, token=address.token)
        self.open, self.note_time, self.leave = writer.open, writer.note_time, writer.leave
        self.write = writer.write

    def stored(self) -> Iterator[tuple[str, bytes]]:
        """Read the key and value of everything that is stored."""
        address = self._address
        with StreamClient(address.url, address.stream, token=address.token) as stream:
            for segment, end in (stream.tail().tail or {}).items():
                for events in stream.read(segment, 0, end):
                    columns = (events.batch.column(one).to_pylist() for one in ("key", "value"))
                    yield from zip(*columns, strict=True)


@dataclass(frozen=True, slots=True)
class _Carrier:
    """What one process reports, and how.

    It hears of everything so much later than the others: of what left meanwhile, it promises
    nothing.
    """

    name: str
    rows: list[_Row]
    behind_ms: int
    address: StreamAddress
    log: OpenLog


class Carriers:
    """The processes of the writers: one a carrier, which registers and reports what has landed.

    What an interrupted replay has stored is not reported again. All of them read the time of the
    replay; it stands until somebody turns it.

    Parameters
    ----------
    flights
        As `read_flights` has them; ``landed`` is when one is reported.
    address
        Of the stream.
    log
        Where each writes; into the stream itself by default.
    behind_ms
        By carrier, how much later it hears of everything; those not named hear at once.
    """

    def __init__(
        self,
        flights: pd.DataFrame,
        address: StreamAddress,
        *,
        log: OpenLog = StreamLog,
        behind_ms: Mapping[str, int] | None = None,
    ) -> None:
        self._context: ForkServerContext = get_context("forkserver")
        self._context.set_forkserver_preload([__name__, log.__module__])
        self.address = address
        # Without locks: one that a process which is ended holds would never be free again.
        self.time_ms = self._context.RawValue(c_int64, int(flights["departed"].min()))
        self._carriers: dict[str, _Carrier] = {}
        self._registered: dict[str, c_bool] = {}
        self._processes: dict[str, BaseProcess] = {}
        for name in sorted(flights["carrier"].unique()):
            own = flights[flights["carrier"] == name]
            columns = (own[one] for one in ("origin", "delay", "departed", "landed"))
            rows = list(zip(*columns, strict=True))
            behind = (behind_ms or {}).get(name, 0)
            self._carriers[name] = _Carrier(name, rows, behind, address, log)
            self._registered[name] = self._context.RawValue(c_bool, False)
            self._start(name)

    def _start(self, name: str) -> None:
        process = self._context.Process(
            target=_run_carrier,
            args=(self._carriers[name], self.time_ms, self._registered[name]),
            name=f"carrier-{name}",
            daemon=True,
        )
        process.start()
        self._processes[name] = process

    @property
    def processes(self) -> list[BaseProcess]:
        """Those that were started last, one a carrier."""
        return list(self._processes.values())

    def restart(self, name: str) -> None:
        """Kill the process of a carrier, wherever it is, and start another."""
        self._processes[name].kill()
        self._processes[name].join()
        self._start(name)

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
        return all(one.value for one in self._registered.values())

    def check(self) -> None:
        """Raise `DemoFailedError` if a process ended with an error."""
        failed = [one.name for one in self.processes if one.exitcode]
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


def _run_carrier(carrier: _Carrier, time_ms: c_int64, registered: c_bool) -> None:
    """Report flights as they land, and note the departure of the oldest one in the air."""
    parent = parent_process()
    log = carrier.log(carrier.address, carrier.name)
    log.open()
    rows = _unstored(carrier, log)
    registered.value = True
    oldest = oldest_unreported(rows)
    at = 0
    noted = None
    while at < len(rows) and parent is not None and parent.is_alive():
        now_ms = time_ms.value
        while at < len(rows) and rows[at][3] <= now_ms:
            key, value = _event(carrier.name, rows[at])
            log.write(value, key=key, event_time=rows[at][2])
            at += 1
        known_ms = now_ms - carrier.behind_ms
        note_ms = now_ms if at == len(rows) else min(known_ms, oldest[at])
        if note_ms != noted:
            log.note_time(note_ms)
            noted = note_ms
        time.sleep(_TICK_S)
    log.leave()


def _event(carrier: str, row: _Row) -> tuple[str, bytes]:
    origin, delay, _, landed = row
    flight = {"origin": origin, "delay": delay, "landed": landed}
    return f"{carrier}-{origin}", json.dumps(flight).encode()


def _unstored(carrier: _Carrier, log: FlightLog) -> list[_Row]:
    """Leave out the flights that an interrupted replay has stored."""
    stored = Counter(one for one in log.stored() if one[0].startswith(f"{carrier.name}-"))
    left: list[_Row] = []
    for row in carrier.rows:
        event = _event(carrier.name, row)
        if stored[event]:
            stored[event] -= 1
        else:
            left.append(row)
    if stored.total():
        sys.exit(
            f"{carrier.address.stream} has flights of {carrier.name} that do not belong to this "
            f"replay; begin anew: {log.begin_anew}"
        )
    return left


def describe_progress(address: StreamAddress, now_ms: int) -> str:
    """Say where the replay and the watermark of its stream stand."""
    stream = address.describe()
    if stream is None:
        return f"{_minute(now_ms)}  {address.stream} was deleted"
    stands = "none yet"
    if stream.watermark is not None:
        behind_h = (now_ms - stream.watermark) / HOUR_MS
        stands = f"{_minute(stream.watermark)} ({behind_h:.1f} h behind)"
    rows = "" if stream.tail is None else f"  {sum(stream.tail.values())} rows"
    return f"{_minute(now_ms)}  watermark {stands}{rows}"


def _minute(time_ms: int) -> str:
    return describe_event_time(time_ms)[5:16].replace("T", " ")
