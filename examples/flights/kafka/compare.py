"""The flights in Kafka: read by Tidegauge's source, by Spark's own with `follow`, and by guessing."""

from contextlib import ExitStack
from math import inf
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from examples.flights.batches import Batch, arrivals_of, batches_of, cut, finished
from examples.flights.carriers import Address, Carriers
from examples.flights.compare import guessed, replay
from examples.flights.data import HOUR_MS, of_first_days, read_flights, truth
from examples.flights.kafka.topic import FlightTopic
from examples.flights.queries import (
    LIVE_BATCH,
    WindowQuery,
    flights_of,
    read_flights_stream,
    running_spark,
)
from examples.flights.report import describe, is_ours, write_results
from examples.flights.service import running_service
from examples.flights.waiting import FlightsError, wait_until
from examples.flights.windows import ClosedWindows, check_rule, close_windows, judge
from spark_source import follow
from spark_source.compatibility import read_offset
from tidegauge.event_time import parse_event_time

DELAYS_H = (1, 3, 6)
BEHIND_MS = {"DL": HOUR_MS}
"""Delta learns of everything an hour later than the others."""
RESTARTED = "UA"


def compare(bootstrap: str, jars: Path, *, days: int, batches: int, output: Path) -> int:
    """Replay flights through Kafka and Spark, and compare with the truth.

    Returns the exit status: 0 if every window of Tidegauge's queries was right and nothing was lost.
    """
    output.mkdir(parents=True, exist_ok=True)
    flights = _as_reported(of_first_days(read_flights(), days))
    print(f"{len(flights)} flights of {days} days, {flights['carrier'].nunique()} carriers")
    topic = FlightTopic(f"tidegauge-demo-{token_hex(4)}", bootstrap)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="flights-")))
        topic.create()
        stack.callback(topic.delete)
        log, connector = output / "spark.log", sorted(jars.glob("*.jar"))
        spark = stack.enter_context(running_spark(log=log, jars=connector))
        address = Address(stack.enter_context(running_service(folder)), f"demo/{topic.name}")
        topic.create_stream(address, flights)
        rows = read_flights_stream(spark, address, **topic.source_options())
        query = WindowQuery("tidegauge log=kafka", rows, folder / "read", every=LIVE_BATCH)
        _replay(topic, address, flights, query, batches=batches)
        ours, arrivals = query.finish(), _read_back(topic, flights)
        read = cut(arrivals, batches_of(query.query.recentProgress))
        check_rule(ours, close_windows(arrivals, read["watermark"]))
        followed, its_clock = _follow(spark, topic, address, arrivals, len(read), folder)
        arrivals = arrivals.sort_values("batch", kind="stable")
        theirs = guessed(spark, arrivals, len(read), DELAYS_H, folder)
    expected = truth(flights)
    verdicts = [
        judge(ours, read["clock"], expected),
        judge(followed, its_clock, expected),
        *(judge(closed, read["clock"], expected) for closed in theirs),
    ]
    print(
        f"\n{len(flights)} flights, windows of an hour; `follow` in {len(its_clock)} batches,"
    )
    print(f"all others in the same {len(read)}:\n\n{describe(verdicts, len(flights))}\n")
    write_results(output, verdicts, arrivals, read, ours.windows)
    return int(any(verdict.dropped or verdict.wrong for verdict in filter(is_ours, verdicts)))


def _as_reported(flights: pd.DataFrame) -> pd.DataFrame:
    """Put when each flight is reported in place of when it landed."""
    behind = flights["carrier"].map(BEHIND_MS).fillna(0).astype("int64")
    reported = flights.assign(landed=flights["landed"] + behind)
    return reported.sort_values("landed", kind="stable").reset_index(drop=True)


def _replay(
    topic: FlightTopic,
    address: Address,
    flights: pd.DataFrame,
    query: WindowQuery,
    *,
    batches: int,
) -> None:
    """Let the carriers write to the topic while a query reads it; kill one of them in the middle."""
    carriers = Carriers(flights, address, log=topic.open_log, behind_ms=BEHIND_MS)

    def restart() -> None:
        carriers.restart(RESTARTED)
        print(f"{RESTARTED} was killed with kill -9, and starts again")

    try:
        replay(carriers, flights, query, batches=batches, at_half=restart)
    finally:
        carriers.end()
    with address.client() as client:
        client.seal(topic.ends())
    wait_until(query.has_ended, "the end of the stream", go_on=query.check)


def _follow(
    spark: SparkSession,
    topic: FlightTopic,
    address: Address,
    arrivals: pd.DataFrame,
    batches: int,
    folder: Path,
) -> tuple[ClosedWindows, "pd.Series[int]"]:
    """Read the topic again with Spark's own source, whose watermark follows the marks.

    It has about so many batches, of its own. Returns what it closed, and the clock of each.
    """
    print("Spark's own source reads the topic again, and follows the marks")
    folder = folder / "follow"
    options: dict[str, Any] = {"startingOffsets": "earliest", "subscribe": topic.name}
    options |= {"maxOffsetsPerTrigger": len(arrivals) // batches, **topic.spark_options()}
    rows = follow(
        spark.readStream.format("kafka").options(**options).load(),
        event_time="timestamp",
        url=address.url,
        stream=address.stream,
        topic=topic.name,
        checkpoint=str(folder / "checkpoint"),
        operators="windows",
    )
    query = WindowQuery("tidegauge follow", flights_of(rows), folder)
    wait_until(query.has_ended, "the end of the stream", go_on=query.check, patience_s=inf)
    closed, own_arrivals = query.finish(), arrivals.copy()
    own = cut(own_arrivals, _batches_of_spark(query, topic))
    check_rule(closed, close_windows(own_arrivals, own["watermark"]))
    return closed, own["clock"]


def _batches_of_spark(query: WindowQuery, topic: FlightTopic) -> list[Batch]:
    """Return the batches of a query of Spark's own source: each sets what is in effect in the next."""
    progress = finished(query.query.recentProgress)
    in_effect = [parse_event_time(batch["eventTime"]["watermark"]) for batch in progress]
    sources = [
        [read_offset(source["endOffset"]) for source in batch["sources"]] for batch in progress
    ]
    positions = [next(end[topic.name] for end in ends if topic.name in end) for ends in sources]
    return list(map(Batch, positions, [*in_effect[1:], in_effect[-1]]))


def _read_back(topic: FlightTopic, flights: pd.DataFrame) -> pd.DataFrame:
    """Return the flights by partition and offset; all of them have to be in the topic once."""
    arrivals = arrivals_of(topic.read())
    flown = flights[arrivals.columns]
    if sorted(arrivals.itertuples(index=False)) != sorted(flown.itertuples(index=False)):
        msg = f"the topic has {len(arrivals)} records, which are not the {len(flights)} flights"
        raise FlightsError(msg)
    return arrivals
