"""Writers that keep their promises: readings written and noted as time goes on, step by step."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, Self

import httpx

from examples.flights.data import of_first_days, read_flights
from examples.telemetry import Reading

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


class HonestFeed:
    """Writes steps to one stream, whose marks are neither delayed nor thinned."""

    def __init__(self, url: str, stream: str) -> None:
        self.url = url
        self.stream = stream
        self._client = httpx.Client(base_url=url, timeout=120)
        self._path = f"/v1/streams/{stream}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def create(self, segments: int) -> None:
        """Create the stream."""
        settings = {"segments": segments, "mark_interval_ms": 0, "mark_resolution_ms": 0}
        self._client.put(self._path, json=settings).raise_for_status()

    def write(self, step: Step) -> None:
        """Write what arrived, then note."""
        for lines in _requests(step.readings):
            self._client.post(
                f"{self._path}/events",
                content=lines,
                headers={"content-type": "application/x-ndjson"},
            ).raise_for_status()
        reports = [
            {"stream": self.stream, "writer": writer, "time": time}
            for writer, time in step.notes.items()
        ]
        answer = self._client.post("/v1/note-times", json={"reports": reports})
        refused = [
            one for one in answer.raise_for_status().json()["results"] if one["status"] != 200
        ]
        if refused:
            msg = f"{self.stream} refused {refused[0]}"
            raise ValueError(msg)

    def write_all(self, steps: Iterable[Step]) -> None:
        """Write steps, and end the stream."""
        for step in steps:
            self.write(step)
        self.seal()

    def seal(self) -> None:
        """End the stream, and so event time."""
        self._client.post(f"{self._path}/seal").raise_for_status()


def _requests(readings: Sequence[Reading]) -> Iterator[str]:
    for at in range(0, len(readings), _EVENTS_A_REQUEST):
        yield "\n".join(
            json.dumps({"key": one.key, "value": str(one.value), "event_time": one.event_time})
            for one in readings[at : at + _EVENTS_A_REQUEST]
        )
