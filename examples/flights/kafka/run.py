"""Running the demo over Kafka from start to end."""

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex

import pandas as pd
from rich.console import Console

from examples.flights.address import StreamAddress
from examples.flights.batches import arrivals_of, cut
from examples.flights.carriers import REPLAYED, Carriers
from examples.flights.data import HOUR_MS, of_first_days, read_flights, truth
from examples.flights.kafka.again import read_again
from examples.flights.kafka.queries import TopicQueries
from examples.flights.kafka.topic import BATCHES, PARTITIONS, FlightTopic
from examples.flights.queries import WindowQuery, running_spark
from examples.flights.replay import LIVE_BATCH, replay
from examples.flights.report import KAFKA_JOB, Results, is_ours, print_table, write_results
from examples.flights.service import running_service
from examples.flights.waiting import DemoFailedError, run_whole
from examples.flights.windows import check_rule, close_windows, curve, judge

BEHIND = "DL"
RESTARTED = "UA"
_BEHIND_MS = {BEHIND: HOUR_MS}


@dataclass(frozen=True, slots=True)
class KafkaDemo:
    """What is replayed, and where.

    Attributes
    ----------
    days
        How many, from 1 January 2013 on.
    speed
        Seconds of flights in one second, at most: the replay waits for Spark.
    batches
        About how many the flights are divided over.
    bootstrap
        The address of brokers.
    jars
        The folder with the jars of Spark's Kafka connector.
    output
        The folder of the results.
    """

    days: int
    speed: float
    batches: int
    bootstrap: str
    jars: Path
    output: Path


def run_kafka_demo(demo: KafkaDemo) -> int:
    """Replay flights through Kafka and Spark in three ways, and compare with the truth.

    Returns the exit status: 0 if every window of Tidegauge's queries was right and nothing was
    lost.
    """
    return run_whole(demo.output, partial(_run, demo))


def _run(demo: KafkaDemo, console: Console) -> int:
    flights = _reported(of_first_days(read_flights()[0], demo.days))
    name, jars = f"tidegauge-demo-{token_hex(4)}", sorted(demo.jars.glob("*.jar"))
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tidegauge-demo-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        topic = FlightTopic(name, {"bootstrap.servers": demo.bootstrap})
        stack.enter_context(topic.created())
        log = demo.output / "spark.log"
        console.print(f"Spark starts; what it says goes to {log.resolve()}")
        spark = stack.enter_context(running_spark(log=log, jars=jars))
        url = stack.enter_context(running_service(folder))
        console.print(f"topic {topic.name} at {demo.bootstrap}, service at {url}")
        topics = TopicQueries(spark, StreamAddress(url, f"demo/{topic.name}"), folder)
        query = _replay(demo, console, topics, topic, flights)
        ours = query.finish()
        records = _read_back(topic, flights)
        batches = cut(records, query.query.recentProgress)
        check_rule(ours, close_windows(records, batches["watermark"]))
        console.print(
            f"Spark's own Kafka source reads the same rows in the same {len(batches)} batches"
        )
        copy = FlightTopic(topic.name + BATCHES, topic.settings)
        stack.enter_context(copy.created(partitions=PARTITIONS + 1))
        theirs = read_again(console, topics, copy, records, len(batches))
    arrivals = records.drop(columns=["key", "value"]).sort_values("batch", kind="stable")
    expected, clock = truth(flights), batches["clock"]
    verdicts = [judge(one, clock, expected) for one in (ours, *theirs)]
    results = Results(verdicts, arrivals, batches, ours.windows, curve(arrivals, clock))
    print_table(console, results, KAFKA_JOB)
    for path in write_results(demo.output, results):
        console.print(f"wrote {path.resolve()}")
    return 1 if any(one.dropped or one.wrong for one in verdicts if is_ours(one)) else 0


def _reported(flights: pd.DataFrame) -> pd.DataFrame:
    """Put when each flight is reported in place of when it landed."""
    behind = flights["carrier"].map(_BEHIND_MS).fillna(0).astype("int64")
    told = flights.assign(landed=flights["landed"] + behind)
    return told.sort_values("landed", kind="stable").reset_index(drop=True)


def _replay(
    demo: KafkaDemo,
    console: Console,
    topics: TopicQueries,
    topic: FlightTopic,
    flights: pd.DataFrame,
) -> WindowQuery:
    """Have the carriers write all flights to a topic, and one query read it meanwhile."""
    address = topics.address
    topic.create_stream(address, **REPLAYED)
    carriers = Carriers(flights, address, log=topic.open_log, behind_ms=_BEHIND_MS)
    try:
        console.print(
            f"{len(flights)} flights; {len(carriers.processes)} carriers register, "
            f"{BEHIND} is an hour behind the others"
        )
        query = topics.read(topic, every=LIVE_BATCH)
        replay(
            console,
            query,
            carriers,
            landed=list(flights["landed"]),
            speed=demo.speed,
            batches=demo.batches,
            seal=lambda: address.seal(topic.ends()),
            restarted=RESTARTED,
        )
    finally:
        carriers.end()
    return query


def _read_back(topic: FlightTopic, flights: pd.DataFrame) -> pd.DataFrame:
    """Read all arrivals, with the ``key`` and ``value`` of each; all flights have to be there once."""
    columns = ["partition", "offset", "key", "value", "departed"]
    records = pd.DataFrame(topic.records(), columns=columns)
    place = pd.MultiIndex.from_frame(records[["partition", "offset"]])
    arrivals = arrivals_of(records["key"], records["value"], records["departed"], place)
    flown = flights[arrivals.columns]
    if sorted(arrivals.itertuples(index=False)) != sorted(flown.itertuples(index=False)):
        msg = f"the topic has {len(arrivals)} records, which are not the {len(flights)} flights"
        raise DemoFailedError(msg)
    return arrivals.assign(key=records["key"].array, value=records["value"].array)
