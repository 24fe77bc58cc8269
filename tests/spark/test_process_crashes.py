"""The driver of a processor is killed at random, and nothing is lost or put out twice."""

import json
import signal
from itertools import groupby
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from examples.telemetry import MINUTE_MS, Reading, generate
from spark_source.processing import ProcessOperator
from tests.effort import Effort
from tests.honest_feed import HonestFeed, steps_of
from tests.server import ServerProcess
from tests.spark import processing_driver
from tests.spark.drivers import driver, kill_later
from tests.spark.processors import Visits
from tidegauge.event_time import END_OF_TIME


@pytest.mark.timeout(3_600)
def test_a_driver_killed_at_random_moments_ends_with_what_the_operator_says(
    spark: SparkSession, shared_server: ServerProcess, tmp_path: Path, effort: Effort
) -> None:
    readings = generate(devices=8, hours=8, every_ms=5 * MINUTE_MS)
    with HonestFeed(shared_server.url, "spark/killed") as feed:
        feed.create(segments=1)
        feed.write_all(steps_of(readings, 30 * MINUTE_MS))
    place = shared_server.url, "spark/killed"
    command = ["-m", "tests.spark.processing_driver", *place, str(tmp_path)]
    chance, log = Random(1), tmp_path / "driver.log"
    for kill in range(effort.times("kills", short=1, long=20)):
        with driver(*command, log=log) as process:
            kill_later(process, tmp_path, chance.uniform(0, 2))
            assert kill > 0 or process.returncode == -signal.SIGKILL
    # A checkpoint is of no driver: this one needs no JVM of its own.
    assert processing_driver.start(spark, *place, tmp_path).awaitTermination(600)
    assert _kept(tmp_path) == _expected(readings)


def _kept(folder: Path) -> dict[str, list[tuple[int, list[str]]]]:
    """Collect the main output by batch: what each key showed, by offset and in order."""
    numbers = sorted(int(one.stem) for one in folder.glob("*.json"))
    assert numbers == list(range(len(numbers)))
    batches = [json.loads((folder / f"{number}.json").read_text()) for number in numbers]
    rows = [row for batch in batches for row in batch]
    assert [row for row in rows if row[0] == "late"] == []
    main = [json.loads(row[1]) for row in rows if row[0] == "main"]
    return _by_key([(row["key"], row["number"], row["seen"]) for row in main])


def _expected(readings: list[Reading]) -> dict[str, list[tuple[int, list[str]]]]:
    operator = ProcessOperator(Visits(), columns=["number", "shown"])
    # One segment: offsets are the order of writing, in which each step was written.
    rows = [
        (one.key, one.event_time, 0, offset, offset, str(one.value))
        for offset, one in enumerate(readings)
    ]
    state = operator.step(None, None, rows).state
    return _by_key([(row[0], *row[2:]) for row in operator.step(state, END_OF_TIME, []).out])


def _by_key(rows: list[tuple[str, int, list[str]]]) -> dict[str, list[tuple[int, list[str]]]]:
    ordered = sorted(rows, key=lambda row: row[0])
    return {
        key: [(number, seen) for _, number, seen in own]
        for key, own in groupby(ordered, key=lambda row: row[0])
    }
