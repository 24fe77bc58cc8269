"""Devices that fall silent, reported at the time when they did, in whatever order readings come in.

A device is offline when it was silent for 30 minutes of event time, and online with the next
reading. The devices are generated: gateways hand their readings in, in disorder, some hours late
where a link was lost. With ``--flights`` they are the aircraft that left New York in January
2013, by tail number, offline when unseen for 6 hours; flights are reported when they land.

    pip install '.[all]'
    tidegauge serve &
    python -m examples.offline_devices
    python -m examples.offline_devices --flights --stream air/craft
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import groupby

import httpx
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from examples.flights.data import of_first_days, read_flights
from examples.telemetry import HOUR_MS, Reading, find_silences, generate
from reader_client import StreamClient
from spark_source import process, quick_start, read_stream
from spark_source.processing import Context, Event, EventTimeProcessor, OpenContext
from spark_source.processing.keys import Key
from writer_client import Writer


class OfflineDevices(EventTimeProcessor):
    """Reports when a device goes offline, and when it is back."""

    output = "device string, at timestamp, status string"

    def __init__(self, timeout: timedelta) -> None:
        self.timeout = timeout

    def open(self, ctx: OpenContext) -> None:
        """Remember for each device whether it is offline."""
        self.is_offline = ctx.value("is_offline")

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:  # noqa: ARG002 (as called)
        """Expect the next reading in time."""
        if self.is_offline.get():
            ctx.emit(key, ctx.time, "online")
        self.is_offline.clear()
        ctx.set_timer("timeout", ctx.time + self.timeout)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:  # noqa: ARG002 (as called)
        """Report that none came."""
        ctx.emit(key, ctx.time, "offline")
        self.is_offline.set(True)


def fly(days: int) -> list[Reading]:
    """Make the flights of the first days of the year readings of their aircraft."""
    flights = of_first_days(read_flights(), days)
    columns = (flights[name].tolist() for name in ("carrier", "tail", "departed", "landed"))
    return [
        Reading(carrier, tail, departed, landed, 1)
        for carrier, tail, departed, landed in zip(*columns, strict=True)
    ]


def write_readings(url: str, stream: str, readings: Sequence[Reading]) -> None:
    """Let each writer write its readings as they arrive, and seal the stream behind them.

    Hour by hour a writer notes the oldest reading that it has not written yet. All of them
    register before, or the first would not wait for the others.
    """
    with StreamClient(url, stream) as client:
        client.create(segments=2, mark_interval_ms=0, mark_resolution_ms=0)
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(Writer(url, stream, name))
            for name in sorted({one.writer for one in readings})
        }
        for writer in writers.values():
            writer.open()
        left = {name: [one for one in readings if one.writer == name] for name in writers}
        for _, arrived in groupby(readings, key=lambda one: one.arrived // HOUR_MS):
            hour = list(arrived)
            for name in {one.writer for one in hour}:
                own = [one for one in hour if one.writer == name]
                writers[name].note_time(min(one.event_time for one in left[name]))
                del left[name][: len(own)]
                writers[name].write_many(
                    [str(one.value) for one in own],
                    keys=[one.key for one in own],
                    event_times=[one.event_time for one in own],
                )
    httpx.post(f"{url}/v1/streams/{stream}/seal").raise_for_status()


def find_offline(spark: SparkSession, url: str, stream: str, timeout: timedelta) -> DataFrame:
    """Report devices until the stream ends, some hours of event time a batch."""
    readings = read_stream(spark, url=url, stream=stream, maxEventTimePerTrigger="12 hours")
    changes = process(readings, OfflineDevices(timeout), key="key", columns=["value"])
    query = changes.output().writeStream.format("memory").queryName("changes").start()
    query.processAllAvailable()
    query.stop()
    return spark.table("changes")


def running_spark() -> SparkSession:
    """Start a small session with this interpreter."""
    quick_start()
    settings: dict[str, bool | float | int | str | None] = {
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        # Processors keep their state in RocksDB.
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution"
        ".streaming.state.RocksDBStateStoreProvider",
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def main() -> int:
    """Print how often devices went offline, and whether plain Python finds the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8470")
    parser.add_argument("--stream", default="telemetry/readings")
    parser.add_argument("--flights", action="store_true")
    parser.add_argument("--days", type=int, default=2)
    asked = parser.parse_args()
    timeout = timedelta(hours=6) if asked.flights else timedelta(minutes=30)
    readings = fly(asked.days) if asked.flights else generate(devices=20, hours=24 * asked.days)

    write_readings(asked.url, asked.stream, readings)
    spark = running_spark()
    changes = find_offline(spark, asked.url, asked.stream, timeout)
    at_ms = F.unix_millis("at").alias("at")
    found = [tuple(row) for row in changes.select("device", at_ms, "status").collect()]
    spark.stop()

    for device, at, status in found[:5]:
        print(f"{datetime.fromtimestamp(at / 1_000, UTC):%Y-%m-%d %H:%M:%S} {device} {status}")
    is_right = sorted(found) == sorted(
        find_silences(readings, timeout // timedelta(milliseconds=1))
    )
    judgement = "as plain Python finds them" if is_right else "NOT as plain Python finds them"
    print(f"{len(readings)} readings, {len(found)} changes, {judgement}")
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
