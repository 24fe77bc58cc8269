"""The settings of a stream as options, made of the model that reads them."""

from collections.abc import Iterable
from inspect import Parameter
from typing import Annotated, Any, NamedTuple, TypeAlias, get_args

import typer
from pydantic import ValidationError

from tidegauge.event_time import describe_span, parse_span
from tidegauge.wire.streams import CreateStream, SettingsFields
from tidegauge_cli.options import SHOWN, in_bytes, in_ms, reading

Setting: TypeAlias = dict[str, Any] | None
"""A name and a value, which may be None; an option that is left out is None itself."""


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


def _options_of(names: Iterable[str]) -> list[Parameter]:
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
            msg = f"{text[:SHOWN]!r} {reason}; write {forms}"
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


CHANGED = _options_of(SettingsFields.model_fields)
CREATED = [*_options_of(("segments", "log")), *CHANGED]
