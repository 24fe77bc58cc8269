"""The writers of the demo alone, for a service and a pipeline that run elsewhere."""

import time

from rich.console import Console

from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.carriers import REPLAYED, Carriers, ReplayClock, describe_progress
from tidegauge_cli.demo.flights import of_first_days, read_flights
from tidegauge_cli.demo.waiting import run_part, wait_until

_SEGMENTS = 4


def run_producer(address: StreamAddress, *, days: int, speed: float) -> int:
    """Replay flights into a stream, and seal it; an interrupted replay goes on where it was.

    The stream is made if it is not there; returns the exit status.
    """
    console = Console(soft_wrap=True)

    def work() -> int:
        stream = address.describe() or address.create(segments=_SEGMENTS, **REPLAYED)
        if stream.final:
            console.print(f"{address.stream} is sealed: these flights were replayed before")
            return 0
        flights = of_first_days(read_flights()[0], days)
        carriers = Carriers(flights, address)
        try:
            console.print(f"{len(flights)} flights of {days} days; the carriers register")
            if stream.watermark is not None:
                carriers.time_ms.value = max(carriers.time_ms.value, stream.watermark)
            wait_until(
                carriers.all_registered, "the carriers to register", go_on=carriers.check
            )
            end_ms, now_s = int(flights["landed"].max()), time.monotonic()
            clock = ReplayClock(carriers.time_ms, end_ms=end_ms, speed=speed, at_s=now_s)
            carriers.replay(
                clock,
                show=lambda: console.print(describe_progress(address, clock)),
                limit_ms=lambda: end_ms,
            )
        finally:
            carriers.end()
        address.seal()
        console.print(f"every flight has landed; {address.stream} is sealed")
        return 0

    return run_part(console, work, stopped="stopped; started again it goes on where it was")
