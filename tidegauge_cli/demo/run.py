"""Running the demo from start to end."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import inf
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from rich.console import Console

from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.batches import cut, read_arrivals, write_arrivals
from tidegauge_cli.demo.carriers import REPLAYED, Carriers, Pace, ReplayClock, describe_progress
from tidegauge_cli.demo.flights import of_first_days, read_flights, truth
from tidegauge_cli.demo.queries import (
    WindowQuery,
    baseline_query,
    batches_done,
    events_read,
    has_ended,
    raise_failure,
    read_flights_stream,
    running_spark,
)
from tidegauge_cli.demo.report import Results, print_table, write_results
from tidegauge_cli.demo.waiting import DemoFailedError, run_part, wait_until
from tidegauge_cli.demo.windows import (
    ClosedWindows,
    check_rule,
    close_windows,
    curve,
    guess,
    judge,
)

STREAM = "demo/flights"
DELAYS_H = (1, 3, 6, 12)
# Each takes all five queries a second and a half on two cores. With those that carry no rows, at
# the start and the end, there are some more: at most 90.
_BATCHES = 80
_LEAST_ROWS_PER_BATCH = 20
# Longer than the carriers take to report what landed and to note the time, and than a batch.
_LIVE_BATCH = "0.7 seconds"
_STOP_S = 15  # of the service: more than what it still answers takes


def run_demo(*, days: int, speed: float, output: Path) -> int:
    """Replay flights through the service and Spark, and compare with the truth.

    The speed is in seconds of flights in one second, at most: the replay waits for Spark. Returns
    the exit status: 0 if every window was right and nothing was lost.
    """
    console = Console(soft_wrap=True)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        console.print(f"[bold red]the results cannot be written: {error}")
        return 1
    work = partial(_run, console, days, speed, output)
    return run_part(console, work, stopped="stopped; nothing is left running")


def _run(console: Console, days: int, speed: float, output: Path) -> int:
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
        address = StreamAddress(stack.enter_context(_running_service(folder)), STREAM)
        address.create(segments=1, **REPLAYED)
        carriers = Carriers(flights, address)
        stack.callback(carriers.end)
        console.print(f"service at {address.url}; {len(carriers.processes)} carriers register")
        rows = read_flights_stream(spark, address)
        query = WindowQuery("tidegauge", rows, folder / "tidegauge", every=_LIVE_BATCH)
        _replay(console, query, carriers, landed=list(flights["landed"]), speed=speed)
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


def _replay(
    console: Console, query: WindowQuery, carriers: Carriers, *, landed: list[int], speed: float
) -> None:
    """Replay the flights as fast as the query reads them, and seal the stream."""

    def check() -> None:
        carriers.check()
        raise_failure(query.query)

    def limit_ms() -> int:
        raise_failure(query.query)
        return pace.limit_ms(events_read(query.query), batches_done(query.query))

    def show() -> None:
        windows = len(query.windows.read())
        console.print(f"{describe_progress(carriers.address, clock)}  {windows} windows")

    wait_until(
        lambda: carriers.all_registered() and batches_done(query.query) > 0,
        "the carriers and the query to start",
        go_on=check,
    )
    at_s = time.monotonic()
    clock = ReplayClock(carriers.time_ms, end_ms=landed[-1], speed=speed, at_s=at_s)
    # Fewer days are not worth as many batches.
    pace = Pace(landed, batches=min(_BATCHES, len(landed) // _LEAST_ROWS_PER_BATCH))
    carriers.replay(clock, show=show, limit_ms=limit_ms)
    console.print(
        f"replayed in {clock.ran_s:.0f} s, {clock.mean_speed:.0f} times as fast as the "
        f"flights; waiting for Spark took {clock.waited_s:.0f} s of it"
    )
    query.query.processAllAvailable()
    carriers.address.seal()
    wait_until(lambda: has_ended(query.query), "the end of the stream", go_on=check)


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


@contextmanager
def _running_service(folder: Path) -> Iterator[str]:
    """Serve a new database in a folder, on a free port; yields the URL."""
    command = [sys.executable, "-m", "tidegauge_cli", "serve", "--port=0"]
    options = [f"--database-url=sqlite:///{folder / 'demo.db'}", "--log-level=warning"]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            urls = (re.search(r"http://\S+", line) for line in process.stdout or ())
            url = next(filter(None, urls), None)
            if url is None:
                msg = f"tidegauge serve ended with status {process.wait()}"
                raise DemoFailedError(msg)
            yield url[0]
        finally:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
