"""Running the demo of tables from start to end."""

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from rich.console import Console

from examples.flights.data import of_first_days, read_flights
from examples.flights.lake.chain import guessed_chain
from examples.flights.lake.guessed import run_guessed
from examples.flights.lake.jars import DELTA, delta_jars
from examples.flights.lake.jobs import JOBS, TIMES, Lake
from examples.flights.lake.processes import JobProcess
from examples.flights.lake.replay import replay_flights
from examples.flights.lake.verdicts import (
    ChainVerdict,
    Truth,
    clocks_of,
    judge_chain,
    print_verdicts,
)
from examples.flights.lake.versions import Versions, check_versions, read_versions
from examples.flights.queries import running_spark
from examples.flights.service import running_service
from examples.flights.waiting import run_whole

DELAYS_H = (1, 3, 6, 12)
RUN_H = 3
"""The delay that runs in Spark, too, which shows that the model is right."""


@dataclass(frozen=True, slots=True)
class LakeDemo:
    """What is replayed, and where.

    Attributes
    ----------
    days
        How many, from 1 January 2013 on.
    speed
        Seconds of flights in one second, at most: the replay waits for bronze.
    batches
        About how many of bronze the flights are divided over.
    jars
        The folder with Delta's jars.
    output
        The folder of the results.
    """

    days: int
    speed: float
    batches: int
    jars: Path | None
    output: Path


def run_lake_demo(demo: LakeDemo) -> int:
    """Run flights through three tables, and compare those with pandas at every version.

    Returns the exit status: 0 if all of it was right.
    """
    return run_whole(demo.output, partial(_run, demo))


def _run(demo: LakeDemo, console: Console) -> int:
    jars = delta_jars(demo.jars)
    flights = of_first_days(read_flights()[0], demo.days)
    truth = Truth(flights)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tidegauge-demo-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        lake = Lake(folder, stack.enter_context(running_service(folder)))
        jobs = {
            name: JobProcess(name, lake, jars[0].parent, demo.output / f"{name}.log")
            for name in JOBS
        }
        console.print(
            f"{len(flights)} flights of {demo.days} days; {', '.join(JOBS)} are a process each, "
            f"with a Spark of its own; what those say goes to {demo.output.resolve()}"
        )
        replay_flights(console, flights, lake, jobs, speed=demo.speed, batches=demo.batches)
        for job in jobs.values():
            job.kill()
        tables = {name: read_versions(folder / name, time) for name, time in TIMES.items()}
        ours = _judge_ours(console, truth, tables, lake)
        console.print(
            "Spark's own watermark reads the same bronze, with delays of "
            f"{', '.join(map(str, DELAYS_H))} h"
        )
        theirs = [_judge_theirs(truth, tables["bronze"], delay_h) for delay_h in DELAYS_H]
        log = demo.output / "spark.log"
        spark = stack.enter_context(running_spark(log=log, jars=jars, settings=DELTA))
        bronze = tables["bronze"]
        run_guessed(spark, lake, RUN_H, guessed_chain(bronze.arrivals(), bronze.files, RUN_H))
        console.print(f"delay {RUN_H} h: as the model of Spark's rule says, to the row")
    print_verdicts(console, [ours, *theirs], truth)
    path = demo.output / "comparison.csv"
    pd.DataFrame(map(asdict, [ours, *theirs])).to_csv(path, index=False)
    console.print(f"wrote {path.resolve()}")
    return 1 if ours.lost or ours.wrong_days or ours.open_days else 0


def _judge_ours(
    console: Console,
    truth: Truth,
    tables: dict[str, Versions],
    lake: Lake,
) -> ChainVerdict:
    """Check all versions of all tables, and find what gold has and how long it waited."""
    for name, table in tables.items():
        said = check_versions(table, truth.of(name), TIMES[name])
        console.print(
            f"{name}: {len(table.rows)} rows as in pandas; complete_until is right at each of "
            f"{said} versions"
        )
    read = {
        name: tables[name].versions_read(lake.checkpoint(name)) for name in ("silver", "gold")
    }
    hours, days = clocks_of(tables, read)
    return judge_chain("tidegauge", hours, days, truth)


def _judge_theirs(truth: Truth, bronze: Versions, delay_h: int) -> ChainVerdict:
    found = guessed_chain(bronze.arrivals(), bronze.files, delay_h)
    clock = bronze.clock("file")
    hours, days = (
        windows.assign(clock=windows["file"].map(clock))
        for windows in (found.hours, found.days)
    )
    return judge_chain(f"delay {delay_h} h", hours, days, truth, lost=found.lost)
