"""What is stored of the embedded log: chunks of events, and who appended what last."""

from typing import NamedTuple

from tidegauge.topology import Position


class Chunk(NamedTuple):
    """Events of one segment as they are stored."""

    segment: int
    first_offset: int
    events: int
    running_time: int | None
    data: bytes


class LastAppend(NamedTuple):
    """What a writer last appended to a segment."""

    incarnation: int
    sequence: int
    next_offset: int


class KeyedAnswer(NamedTuple):
    """What an idempotency key stands for: next offsets of the segments that were written to."""

    fingerprint: str
    """Of the request, so that a key used for another one is found out."""
    position: Position


class AppendOutcome(NamedTuple):
    """Where an append ended up."""

    next_offset: int
    sequence: int
    duplicate: bool
