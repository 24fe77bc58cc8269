"""The query alone, for a Spark cluster and a service that run elsewhere.

It may start before, while or after the flights are replayed, and be stopped and started again: its
windows are the same.
"""

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from examples.flights.carriers import Address
from examples.flights.data import of_first_days, read_flights, truth
from examples.flights.queries import (
    WindowQuery,
    read_flights_stream,
    running_spark,
    watermark_of,
)
from examples.flights.waiting import wait_until
from examples.flights.windows import lost_rows, wrong_windows
from tidegauge.errors import UnknownStreamError

if TYPE_CHECKING:
    from examples.flights.kafka.topic import FlightTopic  # needs the extra kafka


def count(
    address: Address,
    *,
    days: int,
    master: str,
    output: Path,
    topic: "FlightTopic | None" = None,
) -> int:
    """Count the flights of a stream until it is sealed, and compare with the truth.

    They are in a topic, if one is given. The output has the windows and the checkpoint, which the
    executors share. Returns the exit status: 0 if every window was right and nothing was lost.
    """
    print(f"waiting for {address.stream}")
    wait_until(lambda: _exists(address), address.stream, patience_s=600)
    with running_spark(master) as spark:
        options = topic.source_options() if topic else {}
        query = WindowQuery("flights", read_flights_stream(spark, address, **options), output)
        wait_until(
            query.has_ended,
            "the end of the stream",
            go_on=query.check,
            show=lambda: print(f"watermark {watermark_of(query.query) or 'none yet'}"),
            patience_s=inf,
        )
        closed = query.finish().windows
    expected = truth(of_first_days(read_flights(), days))
    wrong, lost = wrong_windows(closed, expected), lost_rows(closed, expected)
    print(
        f"{len(closed)} of {len(expected)} windows closed, {wrong} wrong; {lost} of "
        f"{expected['departures'].sum()} rows lost"
    )
    return 1 if wrong or lost else 0


def _exists(address: Address) -> bool:
    with address.client() as client:
        try:
            client.describe()
        except UnknownStreamError:
            return False
        return True
