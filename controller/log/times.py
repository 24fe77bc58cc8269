"""The event times of one append: whether readers can hold them, and between which they lie."""

from itertools import islice
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.errors import InvalidRequestError
from tidegauge.event_time import describe_unheld, is_held


class EventTimes(NamedTuple):
    """The least and the greatest, ms; None if no event has a time."""

    least: int | None
    greatest: int | None
    refusal: InvalidRequestError | None = None
    """Names the first that no reader can hold."""

    @classmethod
    def of(cls, events: pa.RecordBatch, lines: bytes = b"") -> Self:
        """Look at the times of events, which were ``lines`` if they came as text."""
        least, greatest = (
            one.as_py() for one in pc.min_max(events.column("event_time")).values()
        )
        if least is None or (is_held(least) and is_held(greatest)):
            return cls(least, greatest)
        return cls(least, greatest, _refusal(events, lines))

    def check(self) -> None:
        """Raise `InvalidRequestError` if no reader can hold one of them."""
        if self.refusal is not None:
            raise self.refusal


def _refusal(events: pa.RecordBatch, lines: bytes) -> InvalidRequestError:
    times = events.column("event_time").to_pylist()
    row, time = next(
        (row, time) for row, time in enumerate(times) if time is not None and not is_held(time)
    )
    place = f"row {row}"
    if lines:
        numbers = (at for at, line in enumerate(lines.split(b"\n"), start=1) if line.strip())
        place = f"line {next(islice(numbers, row, None))}"
    key = events.column("key")[row].as_py()
    return InvalidRequestError.of(place, f"event_time of key {key!r}: {describe_unheld(time)}")
