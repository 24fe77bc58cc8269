"""The settings of streams as options: what each takes is what the service's messages say."""

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import typer

from tidegauge_cli.extras import needs_extra

with needs_extra("cli"):
    from pydantic import ValidationError

    from tidegauge.wire.streams import CreateStream
    from tidegauge_cli.parsing import reading

_NULL = "null"
_SHOWN = 40
_Setting: TypeAlias = dict[str, Any]
"""A name and a value, which may be None; an option that is left out is None itself."""


def _option(name: str, metavar: str) -> Any:  # noqa: ANN401 (typer's)
    field = CreateStream.model_fields[name]
    default = _NULL if field.default is None else field.default
    return typer.Option(
        parser=reading(_parser(name)),
        metavar=metavar,
        help=field.description,
        show_default=f"{default} for a new stream" if name != "scaling" else "fixed",
    )


def _parser(name: str) -> Callable[[str], _Setting]:
    def parse(text: str) -> _Setting:
        try:
            read = CreateStream.model_validate({name: None if text == _NULL else text})
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            msg = f"{text[:_SHOWN]!r}: {reason}"
            raise ValueError(msg) from error
        return {name: getattr(read, name)}

    return parse


def given(*settings: _Setting | None) -> _Setting:
    """Join the settings that were typed."""
    return {name: value for one in settings if one for name, value in one.items()}


Segments = Annotated[_Setting | None, _option("segments", "NUMBER")]
Log = Annotated[_Setting | None, _option("log", "embedded|external")]
MaxSegments = Annotated[_Setting | None, _option("max_segments", "NUMBER|null")]
Scaling = Annotated[_Setting | None, _option("scaling", "fixed")]
AggregationTimeoutMs = Annotated[
    _Setting | None, _option("aggregation_timeout_ms", "NUMBER|null")
]
MinWriters = Annotated[_Setting | None, _option("min_writers", "NUMBER")]
MarkIntervalMs = Annotated[_Setting | None, _option("mark_interval_ms", "NUMBER")]
MarkResolutionMs = Annotated[_Setting | None, _option("mark_resolution_ms", "NUMBER")]
MarkRetentionMs = Annotated[_Setting | None, _option("mark_retention_ms", "NUMBER|null")]
WriterRetentionMs = Annotated[_Setting | None, _option("writer_retention_ms", "NUMBER|null")]
MaxFutureSkewMs = Annotated[_Setting | None, _option("max_future_skew_ms", "NUMBER|null")]
