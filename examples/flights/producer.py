"""The writers alone, for a service and a query that run elsewhere."""

import time
from typing import TYPE_CHECKING

from examples.flights.carriers import Address, Carriers, StreamLog, create_stream, minute
from examples.flights.data import of_first_days, read_flights

if TYPE_CHECKING:
    from examples.flights.kafka.topic import FlightTopic  # needs the extra kafka

_SEGMENTS = 4


def produce(
    address: Address, *, days: int, speed: float, topic: "FlightTopic | None" = None
) -> None:
    """Replay flights into a stream at a speed, and seal it; what is stored already is left out.

    The flights go to a topic, if one is given, and their time to the stream.
    """
    flights = of_first_days(read_flights(), days)
    if topic is None:
        create_stream(address, flights, segments=_SEGMENTS)
    else:
        topic.create()
        topic.create_stream(address, flights)
    with address.client() as client:
        stream = client.describe()
        if stream.final:
            print(f"{address.stream} is sealed: these flights were replayed before")
            return
        carriers = Carriers(flights, address, log=topic.open_log if topic else StreamLog)
        began_ms = max(carriers.time_ms.value, stream.watermark or 0)
        began_s = time.monotonic()

        def until_ms() -> int:
            passed_s = time.monotonic() - began_s
            return min(int(flights["landed"].max()), began_ms + int(passed_s * speed * 1_000))

        def show() -> None:
            watermark = client.describe().watermark
            stands = (
                "no watermark yet" if watermark is None else f"watermark {minute(watermark)}"
            )
            print(f"{minute(carriers.time_ms.value)}  {stands}")

        try:
            print(f"{len(flights)} flights of {days} days")
            carriers.replay(until_ms, show=show)
        finally:
            carriers.end()
        client.seal(topic.ends() if topic else None)
    print(f"every flight has landed; {address.stream} is sealed")
