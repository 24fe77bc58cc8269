"""The replay of the flights into bronze, at its pace, while silver and gold read on."""

import time
from collections.abc import Mapping

import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable
from rich.console import Console

from examples.flights.address import StreamAddress
from examples.flights.carriers import REPLAYED, Carriers, Pace, ReplayClock
from examples.flights.lake.jobs import STREAM, Lake
from examples.flights.lake.processes import JobProcess
from examples.flights.waiting import wait_until
from tidegauge.event_time import END_OF_TIME, describe_event_time
from tidegauge.tables import UnreadableTableError, newest_note

KILLED = "silver"
_CATCH_UP_S = 900.0


def replay_flights(
    console: Console,
    flights: pd.DataFrame,
    lake: Lake,
    jobs: Mapping[str, JobProcess],
    *,
    speed: float,
    batches: int,
) -> None:
    """Have the carriers write all flights while the jobs run; wait until all tables are final.

    The flights are divided over about so many batches of bronze. In the middle silver is killed in
    a batch, and started again.
    """
    address = StreamAddress(lake.url, STREAM)
    address.create(segments=1, **REPLAYED)
    carriers = Carriers(flights, address)
    landed = list(flights["landed"])
    pace = Pace(landed, batches)
    to_kill = [jobs[KILLED]]

    def check_jobs() -> None:
        for job in jobs.values():
            job.check()

    def check() -> None:
        carriers.check()
        check_jobs()

    def limit_ms() -> int:
        check()
        rows, done = bronze.appended()
        if to_kill and rows > len(flights) // 2 and to_kill[0].batch_now() is not None:
            batch = to_kill[0].batch_now()
            job = to_kill.pop()
            job.kill()
            job.start()
            console.print(
                f"{job.name} was killed with kill -9 in batch {batch}, and starts again"
            )
        return pace.limit_ms(rows, done)

    def show() -> None:
        stand = (f"{name} {_describe(lake.table(name))}" for name in jobs)
        console.print("  ".join([f"{_minute(carriers.time_ms.value)} ", *stand]))

    try:
        wait_until(
            lambda: carriers.all_registered() and _is_there(lake.table("bronze")),
            "the carriers and bronze to start",
            go_on=check,
        )
        bronze = _Bronze(lake.table("bronze"))
        clock = ReplayClock(
            carriers.time_ms, end_ms=landed[-1], speed=speed, at_s=time.monotonic()
        )
        carriers.replay(clock, show=show, limit_ms=limit_ms)
    finally:
        carriers.end()
    address.seal()
    console.print("every flight has landed; the stream is sealed")
    wait_until(
        lambda: all(_until(lake.table(name)) == END_OF_TIME for name in jobs),
        "all tables to be complete",
        go_on=check_jobs,
        show=show,
        patience_s=_CATCH_UP_S,
    )


class _Bronze:
    """What a table has so far."""

    def __init__(self, path: str) -> None:
        self._table = DeltaTable(path)

    def appended(self) -> tuple[int, int]:
        """Count its rows, and the files that have some: one a batch."""
        self._table.update_incremental()
        added = pa.table(self._table.get_add_actions(flatten=True))
        rows = [number for number in added["num_records"].to_pylist() if number]
        return sum(rows), len(rows)


def _is_there(path: str) -> bool:
    return DeltaTable.is_deltatable(path)


def _until(path: str) -> int | None:
    try:
        found = newest_note(path)
    except UnreadableTableError:
        return None
    return None if found is None else found.time


def _describe(path: str) -> str:
    until = _until(path)
    if until == END_OF_TIME:
        return "complete"
    return "nothing yet" if until is None else f"until {_minute(until)}"


def _minute(time_ms: int) -> str:
    return describe_event_time(time_ms)[5:16].replace("T", " ")
