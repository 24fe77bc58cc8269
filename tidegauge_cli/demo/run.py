"""Running the demo from start to end."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from rich.console import Console

from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.batches import cut, read_arrivals, write_arrivals
from tidegauge_cli.demo.carriers import Carriers
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
from tidegauge_cli.demo.replay import REPLAYED, Pace, ReplayClock, describe_progress
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
    demo = _Demo(console, days, speed, output)
    return run_part(console, demo.run, stopped="stopped; nothing is left running")


@dataclass(frozen=True, slots=True)
class _Demo:
    console: Console
    days: int
    speed: float
    output: Path

    def run(self) -> int:
        """Run everything, and leave nothing behind but the results."""
        everything, left_out = read_flights()
        flights = of_first_days(everything, self.days)
        self.console.print(
            f"{len(flights)} flights of {self.days} days; of the year's flights {left_out} "
            "never took off or landed and are left out"
        )
        log = self.output / "spark.log"
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="tidegauge-demo-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            self.console.print(f"Spark starts; what it says goes to {log.resolve()}")
            spark = stack.enter_context(running_spark(log=log))
            address = StreamAddress(stack.enter_context(_running_service(folder)), STREAM)
            address.create(segments=1, **REPLAYED)
            carriers = Carriers(flights, address)
            stack.callback(carriers.end)
            self.console.print(
                f"service at {address.url}; {len(carriers.processes)} carriers register"
            )
            rows = read_flights_stream(spark, address)
            query = WindowQuery("tidegauge", rows, folder / "tidegauge", every=_LIVE_BATCH)
            ours = self._live(query, flights, address, carriers)
            arrivals = read_arrivals(address)
            batches = cut(arrivals, query.query.recentProgress)
            check_rule(ours, close_windows(arrivals, batches["watermark"]))
            self.console.print(
                f"Spark's own watermark reads the same rows in the same {len(batches)} batches"
            )
            theirs = self._baselines(spark, arrivals, len(batches), folder)
        expected = truth(flights)
        results = Results(
            verdicts=[judge(one, batches["clock"], expected) for one in (ours, *theirs)],
            arrivals=arrivals,
            batches=batches,
            windows=ours.windows,
            curve=curve(arrivals, batches["clock"]),
        )
        print_table(self.console, results)
        for path in write_results(self.output, results):
            self.console.print(f"wrote {path.resolve()}")
        mine = results.verdicts[0]
        return 1 if mine.dropped or mine.wrong else 0

    def _live(
        self,
        query: WindowQuery,
        flights: pd.DataFrame,
        address: StreamAddress,
        carriers: Carriers,
    ) -> ClosedWindows:
        def check() -> None:
            carriers.check()
            raise_failure(query.query)

        wait_until(
            lambda: carriers.all_registered and batches_done(query.query) > 0,
            "the carriers and the query to start",
            go_on=check,
        )
        landed = list(flights["landed"])
        clock = ReplayClock(
            carriers.time_ms, end_ms=landed[-1], speed=self.speed, at_s=time.monotonic()
        )
        # Fewer days are not worth as many batches.
        pace = Pace(landed, batches=min(_BATCHES, len(landed) // _LEAST_ROWS_PER_BATCH))

        def limit_ms() -> int:
            raise_failure(query.query)
            return pace.limit_ms(events_read(query.query), batches_done(query.query))

        carriers.replay(
            clock,
            show=lambda: self.console.print(
                f"{describe_progress(address, clock)}  {len(query.windows.read())} windows"
            ),
            limit_ms=limit_ms,
        )
        self.console.print(
            f"replayed in {clock.ran_s:.0f} s, {clock.mean_speed:.0f} times as fast as the "
            f"flights; waiting for Spark took {clock.waited_s:.0f} s of it"
        )
        query.query.processAllAvailable()
        address.seal()
        wait_until(lambda: has_ended(query.query), "the end of the stream", go_on=check)
        return query.finish()

    def _baselines(
        self, spark: SparkSession, arrivals: pd.DataFrame, batches: int, folder: Path
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
            show=lambda: self.console.print(f"{done()} of {batches} batches"),
            every_s=10,
            patience_s=inf,
        )
        found = []
        for delay_h, query in queries.items():
            found.append(query.finish())
            check_rule(found[-1], close_windows(arrivals, guess(arrivals, batches, delay_h)))
            self.console.print(f"{query.name}: as the model of Spark's rule says, to the row")
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
