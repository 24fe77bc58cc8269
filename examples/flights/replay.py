"""The replay of the flights, at the pace of the query that reads them."""

import time
from collections.abc import Callable

from rich.console import Console

from examples.flights.carriers import Carriers, Pace, ReplayClock, describe_progress
from examples.flights.queries import (
    WindowQuery,
    batches_done,
    events_read,
    has_ended,
    raise_failure,
)
from examples.flights.waiting import wait_until

_LEAST_ROWS_PER_BATCH = 20
# Longer than the carriers take to report what landed and to note the time, and than a batch.
LIVE_BATCH = "0.7 seconds"


def replay(
    console: Console,
    query: WindowQuery,
    carriers: Carriers,
    *,
    landed: list[int],
    speed: float,
    batches: int,
    seal: Callable[[], None] | None = None,
    restarted: str | None = None,
) -> None:
    """Replay the flights as fast as the query reads them, and seal the stream.

    The landings (ms) are in order, and divided over about so many batches. In the middle a carrier is killed and started again, if one is
    named.
    """
    to_restart = [] if restarted is None else [restarted]

    def check() -> None:
        carriers.check()
        raise_failure(query.query)

    def limit_ms() -> int:
        raise_failure(query.query)
        read = events_read(query.query)
        if to_restart and read > len(landed) // 2:
            name = to_restart.pop()
            console.print(f"{name} is killed, and started again")
            carriers.restart(name)
        return pace.limit_ms(read, batches_done(query.query))

    def show() -> None:
        windows = len(query.windows.read())
        progress = describe_progress(carriers.address, clock.now_ms)
        console.print(f"{progress}  {windows} windows")

    wait_until(
        lambda: carriers.all_registered() and batches_done(query.query) > 0,
        "the carriers and the query to start",
        go_on=check,
    )
    at_s = time.monotonic()
    clock = ReplayClock(carriers.time_ms, end_ms=landed[-1], speed=speed, at_s=at_s)
    # Fewer days are not worth as many batches.
    pace = Pace(landed, batches=min(batches, len(landed) // _LEAST_ROWS_PER_BATCH))
    carriers.replay(clock, show=show, limit_ms=limit_ms)
    console.print(
        f"replayed in {clock.ran_s:.0f} s, {clock.mean_speed:.0f} times as fast as the "
        f"flights; waiting for Spark took {clock.waited_s:.0f} s of it"
    )
    query.query.processAllAvailable()
    (seal or carriers.address.seal)()
    wait_until(lambda: has_ended(query.query), "the end of the stream", go_on=check)
