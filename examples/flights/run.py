"""Running the demo from start to end."""

import shutil
import tempfile
from contextlib import ExitStack
from functools import partial
from math import inf
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from rich.console import Console

from examples.flights.address import StreamAddress
from examples.flights.batches import cut, read_arrivals, write_arrivals
from examples.flights.carriers import REPLAYED, Carriers
from examples.flights.data import of_first_days, read_flights, truth
from examples.flights.queries import (
    WindowQuery,
    baseline_query,
    batches_done,
    raise_failure,
    read_flights_stream,
    running_spark,
)
from examples.flights.replay import LIVE_BATCH, replay
from examples.flights.report import Results, print_table, write_results
from examples.flights.service import running_service
from examples.flights.waiting import run_whole, wait_until
from examples.flights.windows import (
    ClosedWindows,
    check_rule,
    close_windows,
    curve,
    guess,
    judge,
)

STREAM = "demo/flights"
DELAYS_H = (1, 3, 6, 12)


def run_demo(*, days: int, speed: float, batches: int, output: Path) -> int:
    """Replay flights through the service and Spark, and compare with the truth.

    The speed is in seconds of flights in one second, at most: the replay waits for Spark, which
    reads them in about so many batches, at most. Returns the exit status: 0 if every window was
    right and nothing was lost.
    """
    return run_whole(
        output, partial(_run, days=days, speed=speed, limit=batches, output=output)
    )


def _run(console: Console, *, days: int, speed: float, limit: int, output: Path) -> int:
    everything, left_out = read_flights()
    flights = of_first_days(everything, days)
    console.print(
        f"{len(flights)} flights of {days} days; of the year's flights {left_out} "
        "never took off or landed and are left out"
    )
    log = output / "spark.log"
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tidegauge-demo-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        console.print(f"Spark starts; what it says goes to {log.resolve()}")
        spark = stack.enter_context(running_spark(log=log))
        address = StreamAddress(stack.enter_context(running_service(folder)), STREAM)
        address.create(segments=1, **REPLAYED)
        carriers = Carriers(flights, address)
        stack.callback(carriers.end)
        console.print(f"service at {address.url}; {len(carriers.processes)} carriers register")
        rows = read_flights_stream(spark, address)
        query = WindowQuery("tidegauge", rows, folder / "tidegauge", every=LIVE_BATCH)
        replay(
            console,
            query,
            carriers,
            landed=list(flights["landed"]),
            speed=speed,
            batches=limit,
        )
        ours, arrivals = query.finish(), read_arrivals(address)
        batches = cut(arrivals, query.query.recentProgress)
        check_rule(ours, close_windows(arrivals, batches["watermark"]))
        console.print(
            f"Spark's own watermark reads the same rows in the same {len(batches)} batches"
        )
        theirs = _baselines(console, spark, arrivals, len(batches), folder)
    expected, clock = truth(flights), batches["clock"]
    verdicts = [judge(one, clock, expected) for one in (ours, *theirs)]
    results = Results(verdicts, arrivals, batches, ours.windows, curve(arrivals, clock))
    print_table(console, results)
    for path in write_results(output, results):
        console.print(f"wrote {path.resolve()}")
    return 1 if verdicts[0].dropped or verdicts[0].wrong else 0


def _baselines(
    console: Console, spark: SparkSession, arrivals: pd.DataFrame, batches: int, folder: Path
) -> list[ClosedWindows]:
    source = folder / "arrivals"
    write_arrivals(arrivals, batches, source)
    queries = {
        delay_h: baseline_query(spark, source, delay_h, folder / f"delay-{delay_h}")
        for delay_h in DELAYS_H
    }

    def done() -> int:
        return min(batches_done(query.query) for query in queries.values())

    def check() -> None:
        for query in queries.values():
            raise_failure(query.query)

    wait_until(
        lambda: done() >= batches,
        "Spark's own watermark",
        go_on=check,
        show=lambda: console.print(f"{done()} of {batches} batches"),
        every_s=10,
        patience_s=inf,
    )
    found = []
    for delay_h, query in queries.items():
        found.append(query.finish())
        check_rule(found[-1], close_windows(arrivals, guess(arrivals, batches, delay_h)))
        console.print(f"{query.name}: as the model of Spark's rule says, to the row")
    return found
