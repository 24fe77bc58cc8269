"""The writers: each carrier is a process, which reports a flight when it lands.

Its event time is its departure, up to twelve hours before. So a carrier promises, each time something
landed: "I will report nothing older than my oldest flight that is still in the air."
"""

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from ctypes import c_int64
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, inf
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeAlias

import pandas as pd

from examples.flights.waiting import FlightsError, wait_until
from reader_client import StreamClient
from tidegauge.event_time import describe_event_time
from writer_client import Writer

_TICK_S = 0.2

_Row: TypeAlias = tuple[str, float, int, int]
"""Origin, delay (minutes), departed and landed (ms)."""


@dataclass(frozen=True, slots=True)
class Address:
    """A stream of a service."""

    url: str
    stream: str
    token: str | None = field(default=None, repr=False)

    def client(self) -> StreamClient:
        """Connect to the stream."""
        return StreamClient(self.url, self.stream, token=self.token)


class FlightLog(Protocol):
    """Where a carrier writes: the stream itself, or a topic in Kafka."""

    def open(self) -> None:
        """Register: a former process of this carrier stores nothing from now on."""

    def stored(self) -> Iterable[tuple[str, bytes]]:
        """Return the key and value of all flights that are stored, of all carriers."""

    def write(self, value: bytes, *, key: str, event_time: int) -> None:
        """Write a flight."""

    def note_time(self, time: int) -> None:
        """Promise that all flights written from now on left at this time or later."""

    def leave(self) -> None:
        """Wait until all is stored and noted, and leave the stream."""


OpenLog: TypeAlias = Callable[[Address, str], FlightLog]
"""Makes the log of a carrier, given its name."""


class StreamLog:
    """The log of the service: a `FlightLog`."""

    def __init__(self, address: Address, carrier: str) -> None:
        self._address = address
        writer = Writer(address.url, address.stream, carrier, token=address.token)
        self.open, self.write = writer.open, writer.write
        self.note_time, self.leave = writer.note_time, writer.leave

    def stored(self) -> Iterator[tuple[str, bytes]]:
        """Return the key and value of all flights that are stored."""
        with self._address.client() as client:
            for segment, end in (client.tail().tail or {}).items():
                for page in client.read(segment, 0, end):
                    keys, values = (page.batch.column(name) for name in ("key", "value"))
                    yield from zip(keys.to_pylist(), values.to_pylist(), strict=True)


@dataclass(frozen=True, slots=True)
class _Carrier:
    """What one process reports, and where; it learns of everything so much later than the others."""

    name: str
    rows: list[_Row]
    behind_ms: int
    address: Address
    log: OpenLog


def create_stream(address: Address, flights: pd.DataFrame, **settings: Any) -> None:  # noqa: ANN401 (of a stream)
    """Create the stream of some flights; the same again changes nothing."""
    with address.client() as client:
        client.create(
            # No watermark before all carriers have reported, however slowly their processes start.
            min_writers=flights["carrier"].nunique(),
            # Event time passes thousands of times as fast as usual: marks are made more often.
            mark_interval_ms=50,
            mark_resolution_ms=60_000,
            # Or it stands, while a flight is in the air and the replay waits: nobody is dropped.
            aggregation_timeout_ms=None,
            hold_limit_ms=None,
            **settings,
        )


class Carriers:
    """The processes of all carriers, which share the time of the replay.

    Parameters
    ----------
    flights
        As `read_flights` has them.
    address
        Of the stream.
    log
        Where each carrier writes; by default into the stream itself.
    behind_ms
        By carrier, how much later it learns of everything.
    """

    def __init__(
        self,
        flights: pd.DataFrame,
        address: Address,
        *,
        log: OpenLog = StreamLog,
        behind_ms: Mapping[str, int] | None = None,
    ) -> None:
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([__name__, log.__module__])
        # Without a lock, which a process that is killed might hold forever.
        self.time_ms = self._context.RawValue(c_int64, int(flights["departed"].min()))
        self._address = address
        self._carriers = {}
        for name, own in flights.groupby("carrier"):
            columns = (own[column] for column in ("origin", "delay", "departed", "landed"))
            rows = list(zip(*columns, strict=True))
            behind = (behind_ms or {}).get(str(name), 0)
            self._carriers[str(name)] = _Carrier(str(name), rows, behind, address, log)
        self._processes = {name: self._start(name) for name in self._carriers}

    def _start(self, name: str) -> BaseProcess:
        work = (self._carriers[name], self.time_ms)
        process = self._context.Process(target=_report, args=work, name=name, daemon=True)
        process.start()
        return process

    def restart(self, name: str) -> None:
        """Kill the process of a carrier with ``kill -9``, and start another."""
        self._processes[name].kill()
        self._processes[name].join()
        self._processes[name] = self._start(name)

    def replay(self, until_ms: Callable[[], int], *, show: Callable[[], None]) -> None:
        """Let all flights land; ``until_ms`` says each time up to when they may."""
        with self._address.client() as client:
            wait_until(
                lambda: client.describe().watermark is not None,
                "all carriers to report",
                go_on=self._check,
            )

        def go_on() -> None:
            self._check()
            self.time_ms.value = max(self.time_ms.value, until_ms())

        def done() -> bool:
            return all(process.exitcode == 0 for process in self._processes.values())

        wait_until(done, "the carriers", go_on=go_on, show=show, patience_s=inf)

    def _check(self) -> None:
        failed = [process.name for process in self._processes.values() if process.exitcode]
        if failed:
            msg = f"these carriers failed: {', '.join(failed)}"
            raise FlightsError(msg)

    def end(self) -> None:
        """End all processes, whether they are done or not."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.join()


def _report(carrier: _Carrier, time_ms: c_int64) -> None:
    """Report the flights of a carrier as they land."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C the parent ends it
    parent = parent_process()
    log = carrier.log(carrier.address, carrier.name)
    log.open()
    rows = _unstored(carrier, log)
    oldest_in_the_air = oldest_unreported(rows)
    at, noted = 0, None
    while at < len(rows) and parent is not None and parent.is_alive():
        now_ms = time_ms.value
        while at < len(rows) and rows[at][3] <= now_ms:
            key, value = _event(carrier.name, rows[at])
            log.write(value, key=key, event_time=rows[at][2])
            at += 1
        # What left meanwhile it does not know yet, and promises nothing about it.
        known_ms = now_ms - carrier.behind_ms
        promise = now_ms if at == len(rows) else min(known_ms, oldest_in_the_air[at])
        if promise != noted:
            log.note_time(promise)
            noted = promise
        time.sleep(_TICK_S)
    log.leave()


def oldest_unreported(rows: list[_Row]) -> list[int]:
    """Return, for each place in the order of landing, the earliest departure from there on."""
    return [*accumulate((departed for _, _, departed, _ in reversed(rows)), min)][::-1]


def _event(carrier: str, row: _Row) -> tuple[str, bytes]:
    origin, delay, _, landed = row
    flight = {"origin": origin, "delay": delay, "landed": landed}
    return f"{carrier}-{origin}", json.dumps(flight).encode()


def _unstored(carrier: _Carrier, log: FlightLog) -> list[_Row]:
    """Leave out the flights that a former process has stored."""
    stored = Counter(event for event in log.stored() if event[0].startswith(f"{carrier.name}-"))
    unstored = []
    for row in carrier.rows:
        event = _event(carrier.name, row)
        if stored[event]:
            stored[event] -= 1
        else:
            unstored.append(row)
    if stored.total():
        stream = carrier.address.stream
        sys.exit(f"{stream} has other flights of {carrier.name}; delete it, and begin anew")
    return unstored


def next_landing(landed: list[int], read: int, batches_left: int) -> int:
    """Return up to when flights may land, ms, so that the unread ones are divided over some batches.

    The landings are in order, and so many flights are read.
    """
    beyond = read + ceil((len(landed) - read) / max(1, batches_left))
    if beyond >= len(landed):
        return landed[-1]
    return max(landed[read], landed[beyond] - 1)


def minute(time_ms: int) -> str:
    """Write a time, ms, as month, day, hour and minute."""
    return describe_event_time(time_ms)[5:16].replace("T", " ")
