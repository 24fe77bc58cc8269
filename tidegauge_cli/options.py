"""What verbs take; what cannot be read is a usage error that names the value and the cure."""

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from time import time_ns
from typing import Annotated, Any, TypeVar

import typer

from tidegauge.event_time import parse_event_time, parse_span
from tidegauge.names import StreamName, check_name
from tidegauge.positions import parse_position

_T = TypeVar("_T")
SHOWN = 40
"""So many characters of what was typed: enough to find it, and one line."""
_SIZE = re.compile(r"([0-9]{1,18})([kMGT]i?)?B?\Z", re.ASCII | re.IGNORECASE)
_POWERS = " kmgt"
_WITHOUT_SECONDS = re.compile(r"\A(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d)(?=[Zz+-])", re.ASCII)
LOCAL = "http://127.0.0.1:8470"


def reading(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """Turn what a parser refuses into a usage error; a default need not be text."""

    def read(text: Any) -> Any:  # noqa: ANN401 (typed, or a default)
        if not isinstance(text, str):
            return text
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return read


def in_range(least: int, most: int | None = None) -> Callable[[str], int]:
    """Make a parser of whole numbers that refuses those out of bounds; both bounds are taken."""
    bounds = f"of {least} or more" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or number < least or (most is not None and number > most):
            msg = f"{text[:SHOWN]!r} is not a whole number {bounds}"
            raise ValueError(msg)
        return number

    return reading(parse)


def in_seconds(text: str) -> float:
    """Read a length of time in s, written ``90s``; a number counts s."""
    return parse_span(text, bare_ms=1_000) / 1_000


def in_ms(text: str) -> int:
    """Read a length of time in ms, written ``90s``; a number counts ms."""
    return parse_span(text, bare_ms=1)


def moment(text: str) -> int:
    """Read a moment in ms: how long ago it is, or a time."""
    with suppress(ValueError):
        return time_ns() // 1_000_000 - parse_span(text)
    return typed_time(text)


def typed_time(text: str, *, up: bool = False) -> int:
    """Read an event time, whose seconds may be left out; see `parse_event_time`."""
    return parse_event_time(_WITHOUT_SECONDS.sub(r"\1:00", text), up=up)


def in_bytes(text: str) -> int:
    """Read a size, written ``10GB``, or ``10GiB`` for powers of 1 024; a number counts bytes."""
    found = _SIZE.match(text)
    if found is None:
        msg = f"{text[:SHOWN]!r} is not a size; write a whole number and kB, MB, GB or TB: 10GB"
        raise ValueError(msg)
    prefix = (found[2] or " ").lower()
    base = 1_024 if "i" in prefix else 1_000
    return int(found[1]) * int(base ** _POWERS.index(prefix[0]))


def flag(*names: str, **how: Any) -> Any:  # noqa: ANN401 (typer's)
    """Make an option that takes no value, and shows none in the help."""
    return typer.Option(*names, metavar="", **how)


def one_of(words: Collection[str]) -> Callable[[str], str]:
    """Make a parser that takes some words."""

    def parse(text: str) -> str:
        if text not in words:
            msg = f"{text[:SHOWN]!r} is not one of {', '.join(words)}"
            raise ValueError(msg)
        return text

    return reading(parse)


def segments(text: str) -> frozenset[int]:
    """Read the numbers of segments, written ``0,1``."""
    if not all(part.isascii() and part.isdecimal() for part in text.split(",")):
        msg = f"{text[:SHOWN]!r} does not name segments; write their numbers, such as 0,1"
        raise ValueError(msg)
    return frozenset(int(part) for part in text.split(","))


def ranges(text: str) -> frozenset[tuple[float, float]]:
    """Read ranges of keys, written ``0-0.3,0.3-1``."""
    pairs = [part.partition("-") for part in text.split(",")]
    try:
        return frozenset((float(low), float(high)) for low, _, high in pairs)
    except ValueError as error:
        msg = f"{text[:SHOWN]!r} does not name key ranges; write low-high, such as 0-0.3,0.3-1"
        raise ValueError(msg) from error


Stream = Annotated[
    StreamName,
    typer.Argument(
        parser=reading(StreamName.parse), metavar="SCOPE/STREAM", help="Name of the stream."
    ),
]
Streams = Annotated[
    list[StreamName],
    typer.Argument(
        parser=reading(StreamName.parse), metavar="SCOPE/STREAM...", help="Names of streams."
    ),
]
Writer = Annotated[
    str,
    typer.Argument(parser=reading(check_name), metavar="WRITER", help="Name of the writer."),
]
_RFC_3339 = "milliseconds, or RFC 3339 such as 2024-01-01T00:00:00Z"
_TIME: dict[str, Any] = {
    "metavar": "TIME",
    "help": f"Event time: {_RFC_3339}; negative after --.",
}
Time = Annotated[int, typer.Argument(parser=reading(typed_time), **_TIME)]
AwaitedTime = Annotated[
    int, typer.Argument(parser=reading(partial(typed_time, up=True)), **_TIME)
]
Timeout = Annotated[
    float | None,
    typer.Option(
        parser=reading(in_seconds),
        metavar="SPAN",
        help="Stop waiting after this time, with exit status 1.",
        show_default="never",
    ),
]
TimeOption = Annotated[
    int | None,
    typer.Option(
        "--time",
        parser=reading(typed_time),
        metavar="TIME",
        help=f"Event time: {_RFC_3339}.",
    ),
]
Position = Annotated[
    dict[int, int] | None,
    typer.Option(
        parser=reading(parse_position), metavar="0:40,1:12", help="Next offset of each segment."
    ),
]
Incarnation = Annotated[
    int | None,
    typer.Option(
        parser=in_range(1),
        metavar="NUMBER",
        help="Incarnation from the registration, if the writer registered.",
    ),
]
Force = Annotated[
    bool, flag("--force", help="Accept a time in early 1970, which looks like seconds.")
]
Ended = Annotated[
    bool,
    flag(
        "--ended",
        help="Its source has ended. The stream is sealed once all its writers have ended.",
    ),
]
Yes = Annotated[bool, flag("--yes", help="Skip the confirmation.")]
Url = Annotated[
    str,
    typer.Option(
        envvar="TIDEGAUGE_URL",
        help="Service URL, or the URLs of its controllers, separated by commas.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(envvar="TIDEGAUGE_TOKEN", help="Bearer token.", show_default=False),
]
Json = Annotated[bool, flag("--json", help="Print JSON instead of a table.")]


def path_of(stream: StreamName) -> str:
    """Give the path of a stream at the service."""
    return f"/v1/streams/{stream}"
