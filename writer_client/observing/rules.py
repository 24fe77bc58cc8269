"""What an observer looks at: whose a record is, when it happened, and how time is guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tidegauge.event_time import parse_event_time, parse_span
from writer_client.strategies import (
    BoundedOutOfOrderness,
    LatenessQuantile,
    Strategy,
    TimeLag,
)

if TYPE_CHECKING:  # an extra
    from confluent_kafka import Message


ReadValue: TypeAlias = Callable[["Message"], bytes | None]
"""Returns the value that, with the partition, names the writer."""
ReadTime: TypeAlias = Callable[["Message"], int]
"""Returns the event time, ms; ``ValueError`` if there is none that can be read."""


class Guess(NamedTuple):
    """How time is guessed.

    Attributes
    ----------
    make
        Makes the strategy of a writer.
    needs_end
        Whether the strategy goes by the clock, so that it says nothing while the observer is
        behind the end of what it reads.
    """

    make: Callable[[], Strategy]
    needs_end: bool


def parse_limit(text: str) -> timedelta | None:
    """Read a length of time above zero, or ``never``, which is None."""
    if text == "never":
        return None
    span = timedelta(milliseconds=parse_span(text))
    if not span:
        msg = f"{text!r} would let every writer leave at once; write never to let none leave"
        raise ValueError(msg)
    return span


def parse_by(text: str) -> ReadValue | None:
    """Read ``partition`` (None), ``key`` or ``header:NAME``."""
    kind, _, name = text.partition(":")
    if text == "partition":
        return None
    if text == "key":
        return lambda record: record.key()
    if kind == "header" and name:
        return lambda record: _header(record, name)
    msg = f"{text!r} distinguishes no writers; write partition, key or header:NAME"
    raise ValueError(msg)


def parse_time_of(text: str) -> ReadTime:
    """Read ``timestamp``, ``header:NAME`` or ``json:/path``, a JSON pointer into the value."""
    kind, _, place = text.partition(":")
    if text == "timestamp":
        return _timestamp
    if kind == "header" and place:
        return lambda record: parse_event_time(_text(_header(record, place)))
    if kind == "json" and place.startswith("/"):
        path = [part.replace("~1", "/").replace("~0", "~") for part in place[1:].split("/")]
        return lambda record: parse_event_time(_pointed(record.value(), path))
    msg = f"{text!r} is not a place of a time; write timestamp, header:NAME or json:/path"
    raise ValueError(msg)


def parse_guess(text: str) -> Guess:
    """Read ``lag:5m``, ``bounded:5m`` or ``quantile:0.999``."""
    kind, _, value = text.partition(":")
    if kind == "lag":
        lag = timedelta(milliseconds=parse_span(value))
        return Guess(lambda: TimeLag(lag), needs_end=True)
    if kind == "bounded":
        delay = timedelta(milliseconds=parse_span(value))
        return Guess(lambda: BoundedOutOfOrderness(delay), needs_end=False)
    if kind == "quantile":
        share = _share(value)
        return Guess(lambda: LatenessQuantile(share), needs_end=False)
    msg = f"{text!r} is not a strategy; write lag:5m, bounded:5m or quantile:0.999"
    raise ValueError(msg)


def _share(text: str) -> float:
    try:
        share = float(text)
        LatenessQuantile(share)  # refuses what is no share
    except ValueError as error:
        msg = f"{text!r} is not a quantile; write a number between 0 and 1, such as 0.999"
        raise ValueError(msg) from error
    return share


def _timestamp(record: Message) -> int:
    kind, time = record.timestamp()
    if kind == 0 or time < 0:  # as a producer writes that gives none
        msg = "the record has no timestamp"
        raise ValueError(msg)
    return time


def _header(record: Message, name: str) -> bytes | None:
    """Read the last header of a name, as Kafka's ``lastHeader`` does."""
    headers: Any = record.headers() or ()
    found = [value for one, value in headers if one == name]
    return found[-1] if found else None


def _text(value: bytes | None) -> str:
    if value is None:
        msg = "the record has no such header"
        raise ValueError(msg)
    return value.decode()


def _pointed(value: bytes | None, path: Sequence[str]) -> object:
    """Follow a JSON pointer (RFC 6901)."""
    try:
        found = json.loads(value or b"")
        for part in path:
            found = found[int(part)] if isinstance(found, list) else found[part]
    except (LookupError, TypeError, RecursionError) as error:
        msg = "the value has nothing at that path"
        raise ValueError(msg) from error
    return found
