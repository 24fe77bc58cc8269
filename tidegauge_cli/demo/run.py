"""Running the demo from start to end."""

import shutil
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pandas as pd
from pyspark.sql import SparkSession
from rich.console import Console

from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.carriers import Carriers, start_carriers
from tidegauge_cli.demo.flights import of_first_days, read_flights, truth
from tidegauge_cli.demo.progress import describe_progress, describe_speed
from tidegauge_cli.demo.queries import (
    WindowQuery,
    baseline_query,
    dropped_rows,
    events_read,
    running_spark,
    tidegauge_query,
    write_arrivals,
)
from tidegauge_cli.demo.replay import REPLAYED, Pace, ReplayClock
from tidegauge_cli.demo.report import print_table, write_results
from tidegauge_cli.demo.server import running_service
from tidegauge_cli.demo.waiting import (
    DemoFailedError,
    interruptible,
    wait_until,
    watch_until,
)
from tidegauge_cli.demo.windows import Verdict, judge

STREAM = "demo/flights"
DELAYS_H = (1, 3, 6, 12)
_LEAST_BATCHES = 50
_LEAST_BEFORE_SEAL = 0.9


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
            verdicts = _Demo(console, days=days, speed=speed, output=output).run()
        except KeyboardInterrupt:
            console.print("stopped; nothing is left running")
            return 130
        except DemoFailedError as error:
            console.print(f"[bold red]{error}")
            return 1
    return 0 if not (verdicts[0].lost or verdicts[0].wrong) else 1


class _Demo:
    def __init__(self, console: Console, *, days: int, speed: float, output: Path) -> None:
        self._console = console
        self._days = days
        self._speed = speed
        self._output = output

    def run(self) -> list[Verdict]:
        """Run everything, and leave nothing behind but the results."""
        say = self._console.print
        everything, left_out = read_flights()
        flights = of_first_days(everything, self._days)
        say(
            f"{len(flights)} flights of {self._days} days; of the year's flights {left_out} "
            "never took off or landed and are left out"
        )
        expected = truth(flights)
        with ExitStack() as stack:
            folder = Path(tempfile.mkdtemp(prefix="tidegauge-demo-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            say("Spark starts, and reads them in order of landing with its own watermark")
            spark = stack.enter_context(running_spark())
            baselines = self._baselines(spark, flights, folder, expected)
            url = stack.enter_context(running_service(folder))
            address = StreamAddress(url, STREAM)
            address.create(segments=1, **REPLAYED)
            carriers = start_carriers(flights, address)
            stack.callback(carriers.end)
            say(f"service at {url}; {len(carriers.processes)} carriers register")
            query = tidegauge_query(spark, address, folder / "tidegauge")
            ours = self._live(query, flights, address, carriers, expected)
        verdicts = [ours[0], *baselines]
        print_table(self._console, verdicts, rows=len(flights))
        paths = write_results(self._output, verdicts, ours[1], rows=len(flights))
        for path in paths:
            say(f"wrote {path.resolve()}")
        return verdicts

    def _live(
        self,
        query: WindowQuery,
        flights: pd.DataFrame,
        address: StreamAddress,
        carriers: Carriers,
        expected: pd.DataFrame,
    ) -> tuple[Verdict, pd.DataFrame]:
        check = partial(_raise_failure, query, carriers)
        wait_until(
            lambda: carriers.all_registered and bool(query.query.recentProgress),
            "the carriers and the query to start",
            check=check,
        )
        landed = list(flights["landed"])
        clock = ReplayClock(
            carriers.time_ms, end_ms=landed[-1], speed=self._speed, at_s=time.monotonic()
        )
        pace = Pace(landed, batches=_LEAST_BATCHES)

        def go_on() -> None:
            check()
            limit_ms = pace.limit_ms(events_read(query.query))
            clock.turn(time.monotonic(), limit_ms=limit_ms)

        show = partial(self._show, query, address, clock, len(expected))
        watch_until(lambda: not carriers.any_alive, show, go_on=go_on)
        self._console.print(describe_speed(clock))
        query.query.processAllAvailable()
        show()
        before_seal = query.windows_emitted
        address.seal()
        wait_until(
            lambda: query.windows_emitted >= len(expected), "the last windows", check=check
        )
        query.query.processAllAvailable()
        query.query.stop()
        emitted = pd.concat([one.windows for one in query.emissions], ignore_index=True)
        verdict = judge("tidegauge", query.emissions, query.clock(clock.start_ms), expected)
        self._check_live(verdict, before_seal, len(expected), query)
        return verdict, emitted

    def _show(
        self, query: WindowQuery, address: StreamAddress, clock: ReplayClock, total: int
    ) -> None:
        self._console.print(
            f"{describe_progress(address, clock)}  {query.windows_emitted}/{total} windows"
        )

    def _check_live(
        self, verdict: Verdict, before_seal: int, total: int, query: WindowQuery
    ) -> None:
        dropped = dropped_rows(query.query)
        share = before_seal / total
        self._console.print(
            f"{verdict.batches} batches; {before_seal} of {total} windows "
            f"({100 * share:.1f} %) closed before the seal; Spark dropped {dropped} rows"
        )
        if verdict.batches < _LEAST_BATCHES or share < _LEAST_BEFORE_SEAL or dropped:
            msg = (
                f"this run shows too little: at least {_LEAST_BATCHES} batches, "
                f"{_LEAST_BEFORE_SEAL:.0%} before the seal and no dropped rows are expected"
            )
            raise DemoFailedError(msg)

    def _baselines(
        self, spark: SparkSession, flights: pd.DataFrame, folder: Path, expected: pd.DataFrame
    ) -> list[Verdict]:
        write_arrivals(flights, folder / "arrivals")
        queries = [
            baseline_query(spark, folder / "arrivals", delay_h, folder / f"delay-{delay_h}")
            for delay_h in DELAYS_H
        ]
        start_ms = int(flights["departed"].min())
        verdicts = []
        for query in queries:
            query.query.processAllAvailable()
            query.query.stop()
            clock = query.clock(start_ms)
            verdicts.append(judge(query.name, query.emissions, clock, expected))
            self._console.print(f"{query.name}: lost {verdicts[-1].lost} rows")
        return verdicts


def _raise_failure(query: WindowQuery, carriers: Carriers) -> None:
    carriers.check()
    error = query.query.exception()
    if error is not None:
        raise DemoFailedError(str(error))
