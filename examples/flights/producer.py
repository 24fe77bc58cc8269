"""The writers of the demo alone, for a service and a pipeline that run elsewhere."""

import time
from typing import TYPE_CHECKING

from rich.console import Console

from examples.flights.address import StreamAddress
from examples.flights.carriers import (
    REPLAYED,
    Carriers,
    ReplayClock,
    StreamLog,
    describe_progress,
)
from examples.flights.data import of_first_days, read_flights
from examples.flights.waiting import run_part, wait_until

if TYPE_CHECKING:
    from examples.flights.kafka.topic import FlightTopic  # needs the extra kafka
    from tidegauge.wire.streams import StreamInfo

_SEGMENTS = 4


def run_producer(
    address: StreamAddress, *, days: int, speed: float, topic: "FlightTopic | None" = None
) -> int:
    """Replay flights into a stream, and seal it; an interrupted replay goes on where it was.

    The flights go to a topic, if one is given, and their time to the stream. Both are made if they
    are not there; returns the exit status.
    """
    console = Console(soft_wrap=True)

    def work() -> int:
        if topic is not None:
            topic.create()
        stream = address.describe() or _create(address, topic)
        if stream.final:
            console.print(f"{address.stream} is sealed: these flights were replayed before")
            return 0
        flights = of_first_days(read_flights()[0], days)
        carriers = Carriers(flights, address, log=topic.open_log if topic else StreamLog)
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
                show=lambda: console.print(describe_progress(address, clock.now_ms)),
                limit_ms=lambda: end_ms,
            )
        finally:
            carriers.end()
        address.seal(topic.ends() if topic else None)
        console.print(f"every flight has landed; {address.stream} is sealed")
        return 0

    return run_part(console, work)


def _create(address: StreamAddress, topic: "FlightTopic | None") -> "StreamInfo":
    if topic is not None:
        return topic.create_stream(address, **REPLAYED)
    return address.create(segments=_SEGMENTS, **REPLAYED)
