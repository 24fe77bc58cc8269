"""Running the demo from start to end."""

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

import httpx
import pandas as pd
from pyspark.sql import SparkSession
from rich.console import Console

from tidegauge.event_time import describe_event_time
from tidegauge_cli.demo.carriers import Carriers, start_carriers
from tidegauge_cli.demo.flights import HOUR_MS, of_first_days, read_flights, truth
from tidegauge_cli.demo.queries import (
    WindowQuery,
    baseline_query,
    start_spark,
    tidegauge_query,
    write_arrivals,
)
from tidegauge_cli.demo.replay import ReplayClock
from tidegauge_cli.demo.report import print_table, write_results
from tidegauge_cli.demo.server import running_service
from tidegauge_cli.demo.windows import Verdict, judge

STREAM = "demo/flights"
DELAYS_H = (1, 3, 6, 12)
_PATIENCE_S = 120.0
_SHOW_EVERY_S = 3.0
_LEAST_BATCHES = 50
_LEAST_BEFORE_SEAL = 0.9


class DemoFailedError(RuntimeError):
    """Something that the demo shows did not come true."""


def run_demo(*, days: int, speed: float, output: Path) -> int:
    """Replay flights through the service and Spark, and compare with the truth.

    Parameters
    ----------
    days
        How many days of 2013.
    speed
        Seconds of flights in one second.
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
    with _interruptible():
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
            with _interrupted_later():
                spark = start_spark()
                stack.callback(spark.stop)
            baselines = self._baselines(spark, flights, folder, expected)
            url = stack.enter_context(running_service(folder))
            _create_stream(url)
            carriers = start_carriers(flights, url, STREAM)
            stack.callback(carriers.end)
            say(f"service at {url}; {len(carriers.processes)} carriers register")
            query = tidegauge_query(spark, url, STREAM, folder / "tidegauge")
            ours = self._live(query, flights, url, carriers, expected)
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
        url: str,
        carriers: Carriers,
        expected: pd.DataFrame,
    ) -> tuple[Verdict, pd.DataFrame]:
        _wait(
            lambda: carriers.all_registered and bool(query.query.recentProgress),
            "the carriers and the query to start",
            query,
            carriers,
        )
        clock = ReplayClock(int(flights["departed"].min()), time.time(), self._speed)
        carriers.start_replay(clock)
        self._watch(query, url, clock, carriers, total=len(expected))
        before_seal = query.windows_emitted
        httpx.post(f"{url}/v1/streams/{STREAM}/seal").raise_for_status()
        _wait(
            lambda: query.windows_emitted >= len(expected), "the last windows", query, carriers
        )
        query.query.processAllAvailable()
        query.query.stop()
        emitted = pd.concat([one.windows for one in query.emissions], ignore_index=True)
        verdict = judge("tidegauge", query.emissions, query.clock(clock.start_ms), expected)
        self._check_live(verdict, before_seal, len(expected), query)
        return verdict, emitted

    def _watch(
        self,
        query: WindowQuery,
        url: str,
        clock: ReplayClock,
        carriers: Carriers,
        *,
        total: int,
    ) -> None:
        """Show progress until every carrier has left and the query has read everything."""
        shown = 0.0
        while carriers.any_alive:
            _raise_failure(query, carriers)
            if time.time() - shown >= _SHOW_EVERY_S:
                shown = time.time()
                self._show(query, url, clock, total)
            time.sleep(0.1)
        _raise_failure(query, carriers)
        query.query.processAllAvailable()
        self._show(query, url, clock, total)

    def _show(self, query: WindowQuery, url: str, clock: ReplayClock, total: int) -> None:
        state = httpx.get(f"{url}/v1/streams/{STREAM}").raise_for_status().json()
        watermark = state["watermark"]
        now = clock.now_ms()
        stands = "none yet"
        if watermark is not None:
            stands = f"{_minute(watermark)} ({(now - watermark) / HOUR_MS:.1f} h behind)"
        self._console.print(
            f"{_minute(now)}  watermark {stands}  {sum(state['tail'].values())} rows  "
            f"{query.windows_emitted}/{total} windows"
        )

    def _check_live(
        self, verdict: Verdict, before_seal: int, total: int, query: WindowQuery
    ) -> None:
        dropped = sum(
            operator["numRowsDroppedByWatermark"]
            for progress in query.query.recentProgress
            for operator in progress["stateOperators"]
        )
        share = before_seal / total
        self._console.print(
            f"{verdict.batches} batches; {before_seal} of {total} windows "
            f"({100 * share:.1f} %) closed before the seal; Spark dropped {dropped} rows"
        )
        if verdict.batches < _LEAST_BATCHES or share < _LEAST_BEFORE_SEAL or dropped:
            msg = (
                f"this run shows too little: at least {_LEAST_BATCHES} batches, "
                f"{_LEAST_BEFORE_SEAL:.0%} before the seal and no dropped rows are expected; "
                "choose more days or less speed"
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


def _minute(time_ms: int) -> str:
    return describe_event_time(time_ms)[5:16].replace("T", " ")


def _create_stream(url: str) -> None:
    settings = {"segments": 1, "mark_interval_ms": 50, "mark_resolution_ms": 60_000}
    httpx.put(f"{url}/v1/streams/{STREAM}", json=settings).raise_for_status()


def _wait(done: Callable[[], bool], what: str, query: WindowQuery, carriers: Carriers) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not done():
        _raise_failure(query, carriers)
        if time.monotonic() > deadline:
            msg = f"waited {_PATIENCE_S:.0f} s for {what}"
            raise DemoFailedError(msg)
        time.sleep(0.1)


def _raise_failure(query: WindowQuery, carriers: Carriers) -> None:
    if carriers.failed:
        msg = f"these carriers failed: {', '.join(carriers.failed)}"
        raise DemoFailedError(msg)
    error = query.query.exception()
    if error is not None:
        raise DemoFailedError(str(error))


@contextmanager
def _interruptible() -> Iterator[None]:
    """End at SIGTERM as at Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Put an interruption off: one while Spark starts would leave its JVM behind for ever."""
    came: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    former = {one: signal.signal(one, remember) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)
    if came:
        raise KeyboardInterrupt
