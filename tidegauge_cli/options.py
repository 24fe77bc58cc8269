"""What verbs take; what cannot be read is a usage error that names the value and the cure."""

import re
from collections.abc import Callable, Collection, Iterable
from inspect import Parameter
from sys import float_info
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, get_args

import typer
from pydantic import ValidationError

from tidegauge.event_time import describe_span, parse_event_time, parse_span
from tidegauge.names import StreamName, check_name
from tidegauge.positions import parse_position
from tidegauge.wire.streams import CreateStream, SettingsFields

_T = TypeVar("_T")
_N = TypeVar("_N", int, float)
_KINDS = {int: "whole number", float: "number"}
_SHOWN = 40  # characters of what was typed: enough to find it, and one line
_FINITE = float_info.max
_SIZE = re.compile(r"([0-9]{1,18})([kMGT]i?)?B?\Z", re.ASCII | re.IGNORECASE)
_POWERS = " kmgt"


class _Form(NamedTuple):
    """What is typed for a setting: in one word, and as a cure of what cannot be read."""

    word: str
    written: str


_NUMBER = _Form("NUMBER", "a whole number, such as 4")
_SPAN = _Form("SPAN", "a length of time, such as 90s, 10m or 7d")
_FORMS = {
    "log": _Form("embedded|external", "embedded or external"),
    "scaling": _Form(
        "fixed|POLICY",
        "fixed, or a target for each segment, such as events_per_s=1000,min_segments=2",
    ),
    "table": _Form("TABLE", "an address or a name, such as s3://lake/hourly"),
    "retention": _Form("LIMITS", "an age, a size or both, such as 7d,10GB"),
}
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


def in_range(kind: type[_N], least: int, most: float = _FINITE) -> Callable[[str], _N]:
    """Make a parser of finite numbers that refuses those out of bounds; both bounds are taken."""
    bounds = f"of {least} or more" if most == _FINITE else f"from {least} to {most}"

    def parse(text: str) -> _N:
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not least <= number <= most:
            msg = f"{text[:_SHOWN]!r} is not a {_KINDS[kind]} {bounds}"
            raise ValueError(msg)
        return number

    return reading(parse)


def in_time(unit_ms: int = 1) -> Callable[[str], float]:
    """Make a parser of lengths of time, in units: a number counts them as well."""
    return reading(lambda text: parse_span(text, bare_ms=unit_ms) / unit_ms)


def in_ms(text: str) -> int:
    """Read a length of time in ms, written ``90s``; a number counts ms."""
    return parse_span(text, bare_ms=1)


def in_bytes(text: str) -> int:
    """Read a size, written ``10GB``, or ``10GiB`` for powers of 1 024; a number counts bytes."""
    found = _SIZE.match(text)
    if found is None:
        msg = (
            f"{text[:_SHOWN]!r} is not a size; write a whole number and kB, MB, GB or TB: 10GB"
        )
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
            msg = f"{text[:_SHOWN]!r} is not one of {', '.join(words)}"
            raise ValueError(msg)
        return text

    return reading(parse)


def segments(text: str) -> frozenset[int]:
    """Read the numbers of segments, written ``0,1``."""
    if not all(part.isascii() and part.isdecimal() for part in text.split(",")):
        msg = f"{text[:_SHOWN]!r} does not name segments; write their numbers, such as 0,1"
        raise ValueError(msg)
    return frozenset(int(part) for part in text.split(","))


def ranges(text: str) -> frozenset[tuple[float, float]]:
    """Read ranges of keys, written ``0-0.3,0.3-1``."""
    pairs = [part.partition("-") for part in text.split(",")]
    try:
        return frozenset((float(low), float(high)) for low, _, high in pairs)
    except ValueError as error:
        msg = f"{text[:_SHOWN]!r} does not name key ranges; write low-high, such as 0-0.3,0.3-1"
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
Time = Annotated[
    int,
    typer.Argument(
        parser=reading(parse_event_time),
        metavar="TIME",
        help="Event time: milliseconds, or RFC 3339 such as 2024-01-01T00:00:00Z; negative after --.",
    ),
]
TimeOption = Annotated[
    int | None,
    typer.Option(
        "--time",
        parser=reading(parse_event_time),
        metavar="TIME",
        help="Event time: milliseconds, or RFC 3339 such as 2024-01-01T00:00:00Z.",
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
        parser=in_range(int, 1),
        metavar="NUMBER",
        help="Incarnation from the registration, if the writer registered.",
    ),
]
Force = Annotated[
    bool, flag("--force", help="Accept a time in early 1970, which looks like seconds.")
]
Yes = Annotated[bool, flag("--yes", help="Skip the confirmation.")]
Url = Annotated[
    str,
    typer.Option(
        envvar="TIDEGAUGE_URL",
        help="Service URL, or those of its controllers, with commas between.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(envvar="TIDEGAUGE_TOKEN", help="Bearer token.", show_default=False),
]
Json = Annotated[bool, flag("--json", help="Print JSON instead of a table.")]
Setting: TypeAlias = dict[str, Any] | None
"""A name and a value, which may be None; an option that is left out is None itself."""


def path_of(stream: StreamName) -> str:
    """Give the path of a stream at the service."""
    return f"/v1/streams/{stream}"


def options_of(names: Iterable[str]) -> list[Parameter]:
    """Make an option of each of some settings; the service's messages say what it takes."""
    return [_option_of(name) for name in names]


def _option_of(name: str) -> Parameter:
    field = CreateStream.model_fields[name]
    form = _FORMS.get(name) or (_SPAN if name.endswith("_ms") else _NUMBER)
    orelse = "null" if type(None) in get_args(field.annotation) and name != "scaling" else ""

    def parse(text: str) -> dict[str, Any]:
        try:
            return {
                name: getattr(CreateStream.model_validate({name: _value(name, text)}), name)
            }
        except ValueError as error:
            reason = _reason(error) if isinstance(error, ValidationError) else "cannot be read"
            forms = ", or ".join(filter(None, [form.written, orelse]))
            msg = f"{text[:_SHOWN]!r} {reason}; write {forms}"
            raise ValueError(msg) from error

    option: Any = typer.Option(
        parser=reading(parse),
        metavar="|".join(filter(None, [form.word, orelse])),
        help=_help(name, field.description or "", form),
        show_default=f"{_show(name, field.default)} for a new stream",
    )
    kind = Annotated[Setting, option]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _help(name: str, description: str, form: _Form) -> str:
    """Say what a setting means, without the unit of messages; and how it is written."""
    said = description.replace(", ms;", ";").replace(", ms.", ".")
    return f"{said} Write {form.written}." if name in _FORMS and name != "log" else said


def _show(name: str, default: object) -> str:
    if default is None:
        return "fixed" if name == "scaling" else "null"
    return describe_span(default) if name.endswith("_ms") else str(default)  # type: ignore[arg-type]


def _value(name: str, text: str) -> object:
    """Read null, several values by name, written ``events_per_s=100,min_segments=2``, or one."""
    if text == "null":
        return None
    if name == "retention" and "=" not in text:
        return dict(_limit(part) for part in text.split(","))
    if name in {"retention", "scaling"} and "=" in text:
        pairs = (part.partition("=") for part in text.split(","))
        return {key: _value(key, value) for key, _, value in pairs}
    if name.endswith("_ms"):
        return in_ms(text)
    return in_bytes(text) if name.startswith("bytes") else text


def _limit(text: str) -> tuple[str, int]:
    is_size = text[-1:] in {"B", "b"}
    return ("bytes", in_bytes(text)) if is_size else ("age_ms", parse_span(text))


def _reason(error: ValidationError) -> str:
    """Say what is wrong, of which part."""
    first = error.errors()[0]
    kind, given = first["type"], first.get("ctx", {})
    if isinstance(first["input"], dict):
        return f"is not taken: {first['msg'].removeprefix('Value error, ')}"
    part = f"has {first['loc'][-1]}, which" if len(first["loc"]) > 1 else ""
    reasons = {
        "greater_than_equal": f"is below {given.get('ge')}",
        "less_than_equal": f"is above {given.get('le')}",
        "extra_forbidden": "is not known",
    }
    return f"{part} {reasons.get(kind, 'cannot be read')}".strip()


CHANGED = options_of(SettingsFields.model_fields)
CREATED = [*options_of(("segments", "log")), *CHANGED]
