"""What verbs take; what cannot be read is a usage error that names the value and the cure."""

from collections.abc import Callable, Collection, Iterable
from inspect import Parameter
from sys import float_info
from typing import Annotated, Any, TypeAlias, TypeVar, get_args

import typer
from pydantic import ValidationError

from tidegauge.event_time import parse_event_time
from tidegauge.names import StreamName, check_name
from tidegauge.wire.streams import CreateStream, SettingsFields
from tidegauge.wire.values import parse_position

_T = TypeVar("_T")
_N = TypeVar("_N", int, float)
_KINDS = {int: "whole number", float: "number"}
_SHOWN = 40  # characters of what was typed: enough to find it, and one line
_FINITE = float_info.max
_WORDS = {"log": "embedded|external", "scaling": "fixed|POLICY"}
_HOW = {"scaling": " A policy is written events_per_s=1000, more values after commas."}
LOCAL = "http://127.0.0.1:8470"


def reading(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """Turn what a parser refuses into a usage error."""

    def read(text: str) -> _T:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return read


def in_range(kind: type[_N], least: int, most: float = _FINITE) -> Callable[[str], _N]:
    """Make a parser of finite numbers that refuses those out of bounds; both bounds are taken."""
    bounds = f"of {least} or more" if most == _FINITE else f"from {least} to {most}"

    def parse(text: str) -> _N:
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            msg = f"{text[:_SHOWN]!r} is no {_KINDS[kind]} {bounds}"
            raise ValueError(msg)
        return number

    return reading(parse)


def one_of(words: Collection[str]) -> Callable[[str], str]:
    """Make a parser that takes some words."""

    def parse(text: str) -> str:
        if text not in words:
            msg = f"{text[:_SHOWN]!r} is not one of {', '.join(words)}"
            raise ValueError(msg)
        return text

    return reading(parse)


def segments(text: str) -> frozenset[int]:
    """Read the numbers of segments, written ``0,1``."""
    if not all(part.isascii() and part.isdecimal() for part in text.split(",")):
        msg = f"{text[:_SHOWN]!r} names no segments; write their numbers, such as 0,1"
        raise ValueError(msg)
    return frozenset(int(part) for part in text.split(","))


def ranges(text: str) -> frozenset[tuple[float, float]]:
    """Read ranges of keys, written ``0-0.3,0.3-1``."""
    pairs = [part.partition("-") for part in text.split(",")]
    try:
        return frozenset((float(low), float(high)) for low, _, high in pairs)
    except ValueError as error:
        msg = f"{text[:_SHOWN]!r} are no ranges; write low-high, such as 0-0.3,0.3-1"
        raise ValueError(msg) from error


Stream = Annotated[
    StreamName,
    typer.Argument(
        parser=reading(StreamName.parse), metavar="SCOPE/STREAM", help="Which stream."
    ),
]
Writer = Annotated[
    str, typer.Argument(parser=reading(check_name), metavar="WRITER", help="Its name.")
]
Time = Annotated[
    int,
    typer.Argument(
        parser=reading(parse_event_time),
        metavar="TIME",
        help="Milliseconds, or 2024-01-01T00:00:00Z; below zero after --.",
    ),
]
TimeOption = Annotated[
    int | None,
    typer.Option(
        "--time",
        parser=reading(parse_event_time),
        metavar="TIME",
        help="Milliseconds, or 2024-01-01T00:00:00Z.",
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
        parser=in_range(int, 1), metavar="NUMBER", help="From a registration, if there was one."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Take a time of early 1970, which looks like seconds.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask first.")]
Url = Annotated[str, typer.Option(envvar="TIDEGAUGE_URL", help="Of the service.")]
Token = Annotated[
    str | None,
    typer.Option(envvar="TIDEGAUGE_TOKEN", help="Bearer token.", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Setting: TypeAlias = dict[str, Any] | None
"""A name and a value, which may be None; an option that is left out is None itself."""


def path_of(stream: StreamName) -> str:
    """Give the path of a stream at the service."""
    return f"/v1/streams/{stream}"


def options_of(names: Iterable[str]) -> list[Parameter]:
    """Make an option of each of some settings: it takes what the service's messages take."""
    return [_option_of(name) for name in names]


def _option_of(name: str) -> Parameter:
    field = CreateStream.model_fields[name]
    number = "NUMBER|null" if type(None) in get_args(field.annotation) else "NUMBER"
    default = "null" if field.default is None else field.default

    def parse(text: str) -> dict[str, Any]:
        try:
            read = CreateStream.model_validate({name: _value_of(text)})
        except ValidationError as error:
            first = error.errors()[0]
            reason = first["msg"].removeprefix("Value error, ")
            named = f"{first['loc'][-1]}: " if len(first["loc"]) > len((name, "policy")) else ""
            msg = f"{text[:_SHOWN]!r}: {named}{reason}"
            raise ValueError(msg) from error
        return {name: getattr(read, name)}

    option: Any = typer.Option(
        parser=reading(parse),
        metavar=_WORDS.get(name, number),
        help=f"{field.description}{_HOW.get(name, '')}",
        show_default=f"{default} for a new stream" if name != "scaling" else "fixed",
    )
    kind = Annotated[Setting, option]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _value_of(text: str) -> str | dict[str, str] | None:
    """Read null, several values by name, written ``events_per_s=100,min_segments=2``, or one."""
    if "=" in text:
        return dict(part.partition("=")[::2] for part in text.split(","))
    return None if text == "null" else text


CHANGED = options_of(SettingsFields.model_fields)
CREATED = [*options_of(("segments", "log")), *CHANGED]
