"""Three Delta tables in a chain, bronze, silver and gold: right at every version, though one job is killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable

from examples.flights.carriers import Address, Carriers, create_stream, minute, next_landing
from examples.flights.data import of_first_days, read_flights
from examples.flights.lake.chain import guessed_chain
from examples.flights.lake.jobs import JOBS, STREAM, TIMES, Lake
from examples.flights.lake.verdicts import (
    ChainVerdict,
    clocks_of,
    describe,
    judge_chain,
    tables_of,
)
from examples.flights.lake.versions import Versions, check_versions, read_versions
from examples.flights.service import running_service
from examples.flights.waiting import FlightsError, wait_until
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import complete_until

DELAYS_H = (1, 3, 6, 12)
KILLED = "silver"
_CATCH_UP_S = 900.0


def compare(jars: Path, *, days: int, batches: int, output: Path) -> int:
    """Run flights through three tables, and compare those with pandas at every version.

    Returns the exit status: 0 if all of it was right.
    """
    output.mkdir(parents=True, exist_ok=True)
    flights = of_first_days(read_flights(), days)
    truth = tables_of(flights)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="flights-")))
        lake = Lake(folder, stack.enter_context(running_service(folder)))
        jobs = {name: JobProcess(name, lake, jars, output / f"{name}.log") for name in JOBS}
        for job in jobs.values():
            stack.callback(job.kill)
        print(f"{len(flights)} flights of {days} days; {', '.join(jobs)} run, a process each")
        _replay(flights, lake, jobs, batches=batches)
        for job in jobs.values():
            job.kill()
        tables = {name: read_versions(folder / name, time) for name, time in TIMES.items()}
        for name, table in tables.items():
            declared = check_versions(table, truth[name], TIMES[name])
            print(
                f"{name}: {len(table.rows)} rows as in pandas; complete_until is right at each "
                f"of {declared} versions"
            )
        read = {
            name: tables[name].versions_read(lake.checkpoint(name))
            for name in ("silver", "gold")
        }
    hours, windows = clocks_of(tables, read)
    lost = len(flights) - int(windows["departures"].sum())
    ours = judge_chain("tidegauge", hours, windows, truth["gold"], lost=lost)
    theirs = [_guess(tables["bronze"], truth["gold"], delay_h) for delay_h in DELAYS_H]
    print(f"\n{len(flights)} flights in {len(truth['gold'])} airport-days:\n")
    print(describe([ours, *theirs], len(flights)), end="\n\n")
    path = output / "comparison.csv"
    pd.DataFrame(map(asdict, [ours, *theirs])).to_csv(path, index=False)
    print(f"wrote {path.resolve()}")
    return 1 if ours.lost or ours.wrong_days or ours.open_days else 0


def _guess(bronze: Versions, gold: pd.DataFrame, delay_h: int) -> ChainVerdict:
    """Judge what the same chain does with Spark's own watermark, by the model of its rule."""
    arrivals = bronze.rows.rename(columns={"file": "batch"}).drop(columns="departures")
    chain = guessed_chain(arrivals, bronze.files, delay_h)
    clock = bronze.clock("file")
    hours, days = (
        windows.assign(clock=windows["file"].map(clock))
        for windows in (chain.hours, chain.days)
    )
    return judge_chain(f"delay {delay_h} h", hours, days, gold, lost=chain.lost)


class JobProcess:
    """The process of a job, in a group of its own with its JVM."""

    def __init__(self, name: str, lake: Lake, jars: Path, log: Path) -> None:
        self._name, self._log = name, log
        module = [sys.executable, "-m", "examples.flights.lake.jobs", name]
        self._command = [*module, str(lake.folder), lake.url, str(jars)]
        log.unlink(missing_ok=True)
        self.start()

    def start(self) -> None:
        """Start the job, for the first time or again, with the same command."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, start_new_session=True
            )

    def check(self) -> None:
        """Raise `FlightsError` if the job has ended."""
        status = self._process.poll()
        if status is not None:
            msg = f"the job of {self._name} ended with status {status}: see {self._log}"
            raise FlightsError(msg)

    def kill(self) -> None:
        """Kill the job and its JVM with ``kill -9``, wherever they are."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _replay(
    flights: pd.DataFrame, lake: Lake, jobs: Mapping[str, JobProcess], *, batches: int
) -> None:
    """Let all flights land as fast as bronze reads them, and wait until all tables are complete."""
    address = Address(lake.url, STREAM)
    create_stream(address, flights, segments=1)
    carriers = Carriers(flights, address)
    landed = list(flights["landed"])
    killed: list[str] = []

    def check() -> None:
        for job in jobs.values():
            job.check()

    def until_ms() -> int:
        check()
        rows, files = _appended(lake.table("bronze"))
        if rows > len(landed) // 2 and not killed:
            killed.append(KILLED)
            jobs[KILLED].kill()
            jobs[KILLED].start()
            print(f"{KILLED} was killed with kill -9, and starts again")
        return next_landing(landed, rows, batches - files)

    def show() -> None:
        rows, _ = _appended(lake.table("bronze"))
        print(
            f"{minute(carriers.time_ms.value)}  {rows} of {len(landed)} flights are in bronze"
        )

    try:
        carriers.replay(until_ms, show=show)
    finally:
        carriers.end()
    with address.client() as client:
        client.seal()
    print("every flight has landed, and the stream is sealed; silver and gold catch up")
    wait_until(
        lambda: all(_is_complete(lake.table(name)) for name in jobs),
        "all tables to be complete",
        go_on=check,
        patience_s=_CATCH_UP_S,
    )


def _appended(table: str) -> tuple[int, int]:
    """Return the number of rows, and of the files that have some: one a batch."""
    if not DeltaTable.is_deltatable(table):
        return 0, 0
    added = pa.table(DeltaTable(table).get_add_actions(flatten=True))
    rows = [number for number in added["num_records"].to_pylist() if number]
    return sum(rows), len(rows)


def _is_complete(table: str) -> bool:
    return DeltaTable.is_deltatable(table) and complete_until(table) == END_OF_TIME
