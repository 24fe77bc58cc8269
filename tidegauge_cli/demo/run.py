"""Running the demo from start to end."""

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from rich.console import Console

from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.batches import cut, read_arrivals, write_arrivals
from tidegauge_cli.demo.carriers import Carriers, start_carriers
from tidegauge_cli.demo.flights import of_first_days, read_flights, truth
from tidegauge_cli.demo.model import check_rule, close_windows, curve, guess
from tidegauge_cli.demo.progress import describe_progress, describe_speed
from tidegauge_cli.demo.queries import (
    WindowQuery,
    baseline_query,
    batches_done,
    events_read,
    has_ended,
    running_spark,
    tidegauge_query,
)
from tidegauge_cli.demo.replay import REPLAYED, Pace, ReplayClock
from tidegauge_cli.demo.report import Results, print_table, write_results
from tidegauge_cli.demo.server import running_service
from tidegauge_cli.demo.waiting import (
    DemoFailedError,
    interruptible,
    wait_until,
    watch_until,
)
from tidegauge_cli.demo.windows import ClosedWindows, Verdict, judge

STREAM = "demo/flights"
DELAYS_H = (1, 3, 6, 12)
# Each takes all five queries a second and a half on two cores. With those that carry no rows, at
# the start and the end, there are some more: at most 90.
_BATCHES = 80
_LEAST_ROWS_PER_BATCH = 20


def run_demo(*, days: int, speed: float, output: Path) -> int:
    """Replay flights through the service and Spark, and compare with the truth.

    Parameters
    ----------
    days
        How many days of 2013.
    speed
        Seconds of flights in one second, at most: the replay waits for Spark.
    output
        Folder for the results.

    Returns
    -------
    int
        The exit status: 0 if every window was right and nothing was lost.
    """
    console = Console(soft_wrap=True)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        console.print(f"[bold red]the results cannot be written: {error}")
        return 1
    with interruptible():
        try:
            ours = _Demo(console, days=days, speed=speed, output=output).run()
        except KeyboardInterrupt:
            console.print("stopped; nothing is left running")
            return 130
        except DemoFailedError as error:
            console.print(f"[bold red]{error}")
            return 1
    return 0 if not (ours.dropped or ours.wrong) else 1


class _Demo:
    def __init__(self, console: Console, *, days: int, speed: float, output: Path) -> None:
        self._console = console
        self._days = days
        self._speed = speed
        self._output = output

    def run(self) -> Verdict:
        """Run everything, and leave nothing behind but the results; return ours."""
        say = self._console.print
        everything, left_out = read_flights()
        flights = of_first_days(everything, self._days)
        say(
            f"{len(flights)} flights of {self._days} days; of the year's flights {left_out} "
            "never took off or landed and are left out"
        )
        log = self._output / "spark.log"
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="tidegauge-demo-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            say(f"Spark starts; what it says goes to {log.resolve()}")
            spark = stack.enter_context(running_spark(log=log))
            url = stack.enter_context(running_service(folder))
            address = StreamAddress(url, STREAM)
            address.create(segments=1, **REPLAYED)
            carriers = start_carriers(flights, address)
            stack.callback(carriers.end)
            say(f"service at {url}; {len(carriers.processes)} carriers register")
            query = tidegauge_query(spark, address, folder / "tidegauge")
            ours = self._live(query, flights, address, carriers)
            arrivals = read_arrivals(address)
            batches = cut(arrivals, query.query.recentProgress)
            check_rule(ours, close_windows(arrivals, batches["watermark"]))
            say(f"Spark's own watermark reads the same rows in the same {len(batches)} batches")
            theirs = self._baselines(spark, arrivals, len(batches), folder)
        expected = truth(flights)
        results = Results(
            verdicts=[judge(one, batches["clock"], expected) for one in (ours, *theirs)],
            arrivals=arrivals,
            batches=batches,
            windows=ours.windows,
            curve=curve(arrivals, batches["clock"]),
        )
        print_table(self._console, results)
        for path in write_results(self._output, results):
            say(f"wrote {path.resolve()}")
        return results.verdicts[0]

    def _live(
        self,
        query: WindowQuery,
        flights: pd.DataFrame,
        address: StreamAddress,
        carriers: Carriers,
    ) -> ClosedWindows:
        def check() -> None:
            carriers.check()
            _raise_failure(query)

        wait_until(
            lambda: carriers.all_registered and batches_done(query.query) > 0,
            "the carriers and the query to start",
            check=check,
        )
        landed = list(flights["landed"])
        clock = ReplayClock(
            carriers.time_ms, end_ms=landed[-1], speed=self._speed, at_s=time.monotonic()
        )
        # Fewer days are not worth as many batches.
        pace = Pace(landed, batches=min(_BATCHES, len(landed) // _LEAST_ROWS_PER_BATCH))

        def go_on() -> None:
            check()
            read, batches = events_read(query.query), batches_done(query.query)
            clock.turn(time.monotonic(), limit_ms=pace.limit_ms(read, batches))

        watch_until(
            lambda: not carriers.any_alive,
            lambda: self._console.print(
                f"{describe_progress(address, clock)}  {query.windows_closed} windows"
            ),
            go_on=go_on,
        )
        self._console.print(describe_speed(clock))
        query.query.processAllAvailable()
        address.seal()
        wait_until(lambda: has_ended(query.query), "the end of the stream", check=check)
        return query.finish()

    def _baselines(
        self, spark: SparkSession, arrivals: pd.DataFrame, batches: int, folder: Path
    ) -> list[ClosedWindows]:
        write_arrivals(arrivals, batches, folder / "arrivals")
        queries = {
            delay_h: baseline_query(
                spark, folder / "arrivals", delay_h, folder / f"delay-{delay_h}"
            )
            for delay_h in DELAYS_H
        }

        def done() -> list[int]:
            return [batches_done(query.query) for query in queries.values()]

        def check() -> None:
            for query in queries.values():
                _raise_failure(query)

        watch_until(
            lambda: min(done()) >= batches,
            lambda: self._console.print(f"{min(done())} of {batches} batches"),
            go_on=check,
            every_s=10,
        )
        found = []
        for delay_h, query in queries.items():
            found.append(query.finish())
            check_rule(found[-1], close_windows(arrivals, guess(arrivals, batches, delay_h)))
            self._console.print(f"{query.name}: as the model of Spark's rule says, to the row")
        return found


def _raise_failure(query: WindowQuery) -> None:
    error = query.query.exception()
    if error is not None:
        raise DemoFailedError(str(error))
