"""The query of the demo alone, for a Spark cluster and a service that run elsewhere.

It may start before, while or after the flights are replayed, and be stopped and started again:
its windows are the same.
"""

import time
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from examples.flights.address import StreamAddress
from examples.flights.data import of_first_days, read_flights, truth
from examples.flights.queries import (
    WindowQuery,
    batches_done,
    dropped_rows,
    raise_failure,
    read_flights_stream,
    running_spark,
)
from examples.flights.waiting import DemoFailedError, run_part, wait_until
from examples.flights.windows import lost_rows, wrong_windows

if TYPE_CHECKING:
    from examples.flights.kafka.topic import FlightTopic  # needs the extra kafka

_END_OF_TIME = "9999-12-31T23:59:59.999Z"
_PATIENCE_S = 600.0


def run_pipeline(
    address: StreamAddress,
    *,
    days: int,
    master: str,
    output: Path,
    topic: "FlightTopic | None" = None,
) -> int:
    """Count the flights of a stream on a cluster until it is sealed, and compare with the truth.

    They are in a topic, if one is given. The stream is waited for if it is not there yet. The output has the windows and the
    checkpoint, which the executors share. Returns the exit status: 0 if every window was right
    and nothing was lost.
    """
    console = Console(soft_wrap=True)

    def work() -> int:
        console.print(f"waiting for {address.stream}")
        wait_until(address.describe, address.stream, patience_s=_PATIENCE_S)
        with running_spark(master) as spark:
            options = topic.source_options() if topic else {}
            flights = read_flights_stream(spark, address, **options)
            query = WindowQuery("flights", flights, output)
            wait_until(
                lambda: _watermark(query.query) == _END_OF_TIME,
                "the end of the stream",
                go_on=Patience(query.query, address).check,
                show=lambda: console.print(
                    f"watermark {_watermark(query.query) or 'none yet'}  "
                    f"{len(query.windows.read())} windows"
                ),
                patience_s=inf,
            )
            found = query.finish().windows
            dropped = dropped_rows(query.query)
        expected = truth(of_first_days(read_flights()[0], days))
        wrong, lost = wrong_windows(found, expected), lost_rows(found, expected)
        console.print(
            f"{len(found)} of {len(expected)} windows closed, {wrong} wrong; {lost} of "
            f"{expected['departures'].sum()} rows lost; Spark dropped {dropped}"
        )
        return 1 if wrong or lost or dropped else 0

    return run_part(console, work)


def _watermark(query: StreamingQuery) -> str | None:
    progress = query.lastProgress
    return None if progress is None else progress["eventTime"].get("watermark")


@dataclass(slots=True)
class Patience:
    """Gives a query up that failed, or that nothing comes for any more."""

    _query: StreamingQuery
    _address: StreamAddress
    _done: int = 0
    _moved_s: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Raise `DemoFailedError` if it is in vain to wait for the query."""
        raise_failure(self._query)
        done = batches_done(self._query)
        if done != self._done:
            self._done, self._moved_s = done, time.monotonic()
        elif time.monotonic() - self._moved_s > _PATIENCE_S:
            msg = (
                f"nothing came from {self._address.stream} for {_PATIENCE_S:.0f} s: does its "
                "producer run? Start it again, then this; both go on where they were"
            )
            raise DemoFailedError(msg)
