"""The log port over the log that is embedded in the service."""

from collections.abc import Iterator

import numpy as np

import reader_client
from spark_source.arrow_values import integers
from tidegauge.errors import TruncatedError
from tidegauge.log import EventRun, EventsLostError, Extent
from tidegauge.topology import Position


class EmbeddedLog:
    """Asks the service, which has the events too; see `Log` and `LogReader`."""

    def __init__(self, client: "reader_client.StreamClient") -> None:
        self._client = client

    def extent(self, beyond: Extent | None = None, *, wait_ms: int = 0) -> Extent:
        """Return how far the log goes, in one long poll."""
        if beyond is None:
            tail = self._client.tail()
            topology = self._client.topology()  # after the tail, whose segments it has to know
        else:
            topology = beyond.topology
            # Of sealed segments there may be thousands, in the address of the call.
            after = {number: beyond.ends.get(number, 0) for number in topology.unsealed}
            tail = self._client.tail(after=after, revision=beyond.revision, wait_ms=wait_ms)
            if tail.topology_revision != topology.revision:
                topology = self._client.topology()
        return Extent(topology, tail.tail, tail.revision, tail.watermark)

    def starts(self) -> Position:
        """Find where it was truncated."""
        return self._client.tail().first_cut

    def start_of(self, time: int) -> Position:
        """Find per segment where event time first reaches a time."""
        return self._client.marks_at_time(time).start or {}

    def read(self, segment: int, offsets: range) -> Iterator[EventRun]:
        """Read over HTTP."""
        at = offsets.start
        try:
            for events in self._client.read(segment, at, offsets.stop):
                if events.first_offset > at:
                    raise EventsLostError(segment, at, events.first_offset)
                yield run_of(events)
                at = events.end_offset
        except TruncatedError as lost:
            raise EventsLostError(segment, at, lost.first_offset) from lost
        if at < offsets.stop:
            raise EventsLostError(segment, at, at)

    def log_id(self) -> None:
        """Return nothing: the stream's own id is sent with each request."""


def run_of(events: "reader_client.Events") -> EventRun:
    """Give events their offsets, which have no gaps here."""
    offsets = integers(np.arange(events.first_offset, events.end_offset))
    return EventRun(events.segment, offsets, events.end_offset, events.batch)
