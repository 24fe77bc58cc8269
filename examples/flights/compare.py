"""Tidegauge against Spark's own watermark: the same rows in the same batches, and the truth."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession

from examples.flights.batches import arrivals_of, batches_of, cut, write_arrivals
from examples.flights.carriers import Address, Carriers, create_stream, minute, next_landing
from examples.flights.data import of_first_days, read_flights, truth
from examples.flights.queries import (
    LIVE_BATCH,
    WindowQuery,
    baseline_query,
    batches_done,
    events_read,
    read_flights_stream,
    running_spark,
)
from examples.flights.report import describe, write_results
from examples.flights.service import running_service
from examples.flights.waiting import wait_until
from examples.flights.windows import ClosedWindows, check_rule, close_windows, guess, judge

DELAYS_H = (1, 3, 6, 12)


def compare(*, days: int, batches: int, output: Path) -> int:
    """Replay flights through the service and Spark, and compare with the truth.

    Returns the exit status: 0 if every window of Tidegauge's was right and nothing was lost.
    """
    output.mkdir(parents=True, exist_ok=True)
    flights = of_first_days(read_flights(), days)
    print(f"{len(flights)} flights of {days} days, {flights['carrier'].nunique()} carriers")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="flights-")))
        spark = stack.enter_context(running_spark(log=output / "spark.log"))
        address = Address(stack.enter_context(running_service(folder)), "demo/flights")
        create_stream(address, flights, segments=1)
        rows = read_flights_stream(spark, address)
        query = WindowQuery("tidegauge", rows, folder / "tidegauge", every=LIVE_BATCH)
        carriers = Carriers(flights, address)
        stack.callback(carriers.end)
        replay(carriers, flights, query, batches=batches)
        with address.client() as client:
            client.seal()
        wait_until(query.has_ended, "the end of the stream", go_on=query.check)
        ours, arrivals = query.finish(), _read_back(address)
        read = cut(arrivals, batches_of(query.query.recentProgress))
        check_rule(ours, close_windows(arrivals, read["watermark"]))
        theirs = guessed(spark, arrivals, len(read), DELAYS_H, folder)
    expected = truth(flights)
    verdicts = [judge(closed, read["clock"], expected) for closed in (ours, *theirs)]
    print(f"\n{len(arrivals)} flights in the same {len(read)} batches, windows of an hour:\n")
    print(describe(verdicts, len(arrivals)), end="\n\n")
    write_results(output, verdicts, arrivals, read, ours.windows)
    return 1 if verdicts[0].dropped or verdicts[0].wrong else 0


def replay(
    carriers: Carriers,
    flights: pd.DataFrame,
    query: WindowQuery,
    *,
    batches: int,
    at_half: Callable[[], None] = lambda: None,
) -> None:
    """Let all flights land, as fast as a query reads them, in about so many batches."""
    landed, to_call = list(flights["landed"]), [at_half]

    def until_ms() -> int:
        query.check()
        read = events_read(query.query)
        if to_call and read > len(landed) // 2:
            to_call.pop()()
        return next_landing(landed, read, batches - batches_done(query.query))

    def show() -> None:
        print(
            f"{minute(carriers.time_ms.value)}  {events_read(query.query)} of {len(landed)} "
            f"flights are read, in {batches_done(query.query)} batches"
        )

    carriers.replay(until_ms, show=show)


def guessed(
    spark: SparkSession,
    arrivals: pd.DataFrame,
    batches: int,
    delays_h: Sequence[int],
    folder: Path,
) -> list[ClosedWindows]:
    """Read the same batches again with Spark's own watermark, and return what each delay closes.

    `FlightsError` if that is something else than what the model of Spark's rule closes.
    """
    print(
        f"Spark's own watermark reads the same rows in the same {batches} batches: a minute or two"
    )
    source, results = folder / "arrivals", []
    write_arrivals(arrivals, batches, source)
    queries = [
        baseline_query(spark, source, hours, folder / f"{hours}-h") for hours in delays_h
    ]
    for delay_h, query in zip(delays_h, queries, strict=True):
        closed = query.finish()
        check_rule(closed, close_windows(arrivals, guess(arrivals, batches, delay_h)))
        print(f"{query.name}: as the model of Spark's rule says, to the row")
        results.append(closed)
    return results


def _read_back(address: Address) -> pd.DataFrame:
    """Return the flights in the order of their stream, which has one segment."""
    with address.client() as client:
        pages = [page.batch for page in client.read(0, 0, client.tail().tail[0])]
    events = pa.Table.from_batches(pages).to_pandas()
    events.index = pd.MultiIndex.from_product([[0], range(len(events))])
    return arrivals_of(events)
