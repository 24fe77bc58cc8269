"""Writers that keep their promises: readings written and noted as time goes on, step by step."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from examples.flights.data import of_first_days, read_flights
from examples.telemetry import Reading
from tests.service.api import Api
from tidegauge.client.blocks import Closing

_EVENTS_A_REQUEST = 10_000


class Step(NamedTuple):
    """What was written until some time, and what each writer can promise then, ms."""

    time: int
    readings: list[Reading]
    notes: dict[str, int]


def fly(days: int) -> list[Reading]:
    """Make the flights of the first days of the year readings, written when they land."""
    flights = of_first_days(read_flights(), days)
    keys = flights["carrier"] + "-" + flights["origin"]
    times = flights["departed"].tolist(), flights["landed"].tolist()
    delays = flights["delay"].astype(int).tolist()
    return list(map(Reading, flights["carrier"].tolist(), keys.tolist(), *times, delays))


def steps_of(readings: Sequence[Reading], every_ms: int) -> list[Step]:
    """Divide readings, which come in the order of arrival, into steps of time.

    After the first, which has no readings, all writers have told where they begin. A writer
    promises the oldest event that it knows of and has not written, or else the time that it is.
    """
    own = defaultdict[str, list[Reading]](list)
    for one in readings:
        own[one.writer].append(one)
    oldest_left = {
        writer: [*accumulate((one.event_time for one in reversed(rows)), min)][::-1]
        for writer, rows in own.items()
    }
    written = dict.fromkeys(own, 0)
    start = min(one.event_time for one in readings) // every_ms * every_ms
    steps, at = list[Step](), 0
    while at < len(readings) or not steps:
        time = start + len(steps) * every_ms
        begun = at
        while at < len(readings) and readings[at].arrived <= time:
            written[readings[at].writer] += 1
            at += 1
        notes = {
            writer: min([time, *oldest_left[writer][count : count + 1]])
            for writer, count in written.items()
        }
        steps.append(Step(time, list(readings[begun:at]), notes))
    return steps


class HonestFeed(Closing):
    """Writes steps to one stream, whose marks are neither delayed nor thinned."""

    def __init__(self, url: str, stream: str) -> None:
        self.url = url
        self.stream = stream
        self._api = Api(url, stream)
        self._api.client.timeout = 120

    def close(self) -> None:
        self._api.close()

    def create(self, segments: int) -> None:
        """Create the stream."""
        self._api.create(log="embedded", segments=segments, mark_resolution_ms=0)

    def write(self, step: Step) -> None:
        """Write what arrived, then note."""
        events = [(one.key, one.event_time, str(one.value)) for one in step.readings]
        for at in range(0, len(events), _EVENTS_A_REQUEST):
            self._api.write(*events[at : at + _EVENTS_A_REQUEST])
        self._api.many({"writer": writer, "time": at} for writer, at in step.notes.items())

    def write_all(self, steps: Iterable[Step]) -> None:
        """Write steps, and end the stream."""
        for step in steps:
            self.write(step)
        self.seal()

    def seal(self) -> None:
        """End the stream, and so event time."""
        self._api.post("seal")
