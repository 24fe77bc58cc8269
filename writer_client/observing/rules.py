"""What an observer looks at: whose a record is, when it happened, what it promises, and how time is guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from fractions import Fraction
from functools import partial
from math import floor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tidegauge.event_time import parse_event_time, parse_span, to_event_time
from tidegauge.json_text import show_json
from writer_client.strategies import (
    BoundedOutOfOrderness,
    LatenessQuantile,
    Punctuated,
    Strategy,
    TimeLag,
)

if TYPE_CHECKING:  # an extra
    from confluent_kafka import Message


ReadValue: TypeAlias = Callable[["Message"], bytes | None]
"""Returns the value that, with the partition, names the writer."""
ReadTime: TypeAlias = Callable[["Message"], int]
"""Returns the event time, ms; ``ValueError`` if there is none that can be read."""
ReadPromise: TypeAlias = Callable[["Message"], int | None]
"""Returns the time, ms, that a record promises; None if it promises none; ``ValueError`` if that cannot be read."""
ReadUnit: TypeAlias = Callable[[object], int]
"""Reads a value of JSON as ms, rounded down; ``ValueError`` if it is no time."""

_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?\Z", re.ASCII)
_UNITS = {
    "ms": Fraction(1),
    "us": Fraction(1, 10**3),
    "ns": Fraction(1, 10**6),
    "s": Fraction(10**3),
    # Nanoseconds, a point, and a logical counter: what is behind the point is less than one of them.
    "hlc": Fraction(1, 10**6),
    # Milliseconds, and 18 bits of a logical counter.
    "tso": Fraction(1, 2**18),
}
_FEEDS = {
    "cockroachdb": (("/resolved", "/__crdb__/resolved"), "hlc"),
    "ticdc": (("/_tidb/watermarkTs",), "tso"),
}


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


PROMISED = Guess(lambda: Punctuated(lambda event: event.event_time), needs_end=False)
"""Of promises nothing is guessed: what is observed is a promise, and the greatest one holds."""


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


def parse_promises(text: str) -> tuple[ReadPromise, ReadUnit]:
    """Read ``cockroachdb``, ``ticdc`` or ``json:/path[:unit]``; return how promises are read, and times of this feed."""
    kind, _, place = text.partition(":")
    path, _, unit = place.rpartition(":") if ":" in place else (place, "", "")
    if text in _FEEDS:
        places, unit = _FEEDS[text]
    elif kind == "json" and path.startswith("/") and unit in {"", *_UNITS}:
        places = (path,)
    else:
        msg = (
            f"{text!r} is not a place of promises; write cockroachdb, ticdc or json:/path, if it is not "
            f"in ms or RFC 3339 with its unit: json:/path:us, of {', '.join(_UNITS)}"
        )
        raise ValueError(msg)
    read_unit = partial(_in_unit, unit) if unit else parse_event_time
    paths = [_path_of(one) for one in places]
    return partial(_promised, paths=paths, unit=read_unit), read_unit


def _promised(record: Message, paths: Sequence[Sequence[str]], unit: ReadUnit) -> int | None:
    found: list[object] = []
    with suppress(ValueError):  # no JSON: a row, or a tombstone
        document = _parsed(record.value())
        for path in paths:
            with suppress(ValueError):  # nothing there
                found.append(_pointed(document, path))
    return next((unit(value) for value in found if value is not None), None)


def _in_unit(unit: str, value: object) -> int:
    """Read a number, as JSON or as text; the promise holds for an earlier time as well, so it is rounded down."""
    text = str(value)
    if not _NUMBER.match(text):
        msg = f"{show_json(value)} is not a time in {unit}"
        raise ValueError(msg)
    return to_event_time(floor(Fraction(text) * _UNITS[unit]))


def parse_time_of(text: str, unit: ReadUnit = parse_event_time) -> ReadTime:
    """Read ``timestamp``, ``header:NAME`` or ``json:/path``, a JSON pointer into the value."""
    kind, _, place = text.partition(":")
    if text == "timestamp":
        return _timestamp
    if kind == "header" and place:
        return lambda record: unit(_text(_header(record, place)))
    if kind == "json" and place.startswith("/"):
        path = _path_of(place)
        return lambda record: unit(_pointed(_parsed(record.value()), path))
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


def _path_of(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/")]


def _parsed(value: bytes | None) -> Any:  # noqa: ANN401 (JSON)
    try:
        # A fraction stays as it is written: a float would lose the end of a time in nanoseconds.
        return json.loads(value or b"", parse_float=str)
    except RecursionError as error:
        msg = "the value is nested too deeply"
        raise ValueError(msg) from error


def _pointed(found: Any, path: Sequence[str]) -> object:  # noqa: ANN401 (JSON)
    """Follow a JSON pointer (RFC 6901)."""
    try:
        for part in path:
            found = found[int(part)] if isinstance(found, list) else found[part]
    except (LookupError, TypeError) as error:
        msg = "the value has nothing at that path"
        raise ValueError(msg) from error
    return found
