"""The options of the source; one that it does not have is an error."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, TypeAlias

from spark_source._errors import InvalidOptionError
from tidegauge.client.addresses import InvalidTokenError, check_token, check_url
from tidegauge.event_time import parse_event_time
from tidegauge.names import StreamName, parse_group
from tidegauge.wire.values import parse_position

Admission: TypeAlias = Literal["tail", "marks"]

MAX_ROWS = 1_000_000
_UNITS_MS = {
    "ms": 1,
    "millisecond": 1,
    "s": 1_000,
    "second": 1_000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "d": 86_400_000,
    "day": 86_400_000,
}
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+)\s*\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a load was told; the fields are the options of `TidegaugeDataSource`."""

    url: str
    stream: str
    token: str | None = field(default=None, repr=False)
    reader_group: str | None = None
    latest: bool = False
    starting_time: int | None = None
    starting_cut: Mapping[int, int] | None = None
    ending_time: int | None = None
    ending_cut: Mapping[int, int] | None = None
    allow_incomplete: bool = False
    max_event_time_ms: int | None = None
    max_rows: int | None = MAX_ROWS
    admission: Admission = "tail"
    min_time_step_ms: int = 1_000
    fail_on_data_loss: bool = True
    out_of_range_as_null: bool = False


def read_options(given: Mapping[str, str]) -> Options:
    """Read the options of a load, whatever the case of their names.

    Raises
    ------
    InvalidOptionError
        Naming the option and the cure.
    """
    rest = {name.lower(): (name, value) for name, value in given.items()}
    known = dict[str, str]()

    def take(name: str) -> str | None:
        known[name.lower()] = name
        return rest.pop(name.lower(), (name, None))[1]

    def need(name: str, example: str) -> str:
        value = take(name)
        if value is None:
            raise InvalidOptionError(name, f"is required, for example {example}")
        return value

    offsets = take("startingOffsets") or "earliest"
    stream = _stream(need("stream", "demo/rides"))
    options = Options(
        url=_url(need("url", "http://127.0.0.1:8470")),
        stream=stream,
        token=_token(take("token")),
        reader_group=_group(take("readerGroup"), stream),
        latest=_one_of("startingOffsets", offsets, "earliest", "latest") == "latest",
        starting_time=_time("startingTime", take("startingTime")),
        starting_cut=_cut("startingCut", take("startingCut")),
        ending_time=_time("endingTime", take("endingTime")),
        ending_cut=_cut("endingCut", take("endingCut")),
        allow_incomplete=_flag("allowIncomplete", take("allowIncomplete")),
        max_event_time_ms=_duration("maxEventTimePerTrigger", take("maxEventTimePerTrigger")),
        max_rows=_max_rows(take("maxRowsPerTrigger")),
        admission=_admission(take("admission") or "tail"),
        min_time_step_ms=_duration("minTimeStep", take("minTimeStep")) or 1_000,
        fail_on_data_loss=_flag("failOnDataLoss", take("failOnDataLoss") or "true"),
        out_of_range_as_null=_one_of("outOfRange", take("outOfRange") or "fail", "fail", "null")
        == "null",
    )
    for name, _ in rest.values():
        near = [known[one] for one in get_close_matches(name.lower(), known, n=1)]
        cure = (
            f"did you mean {near[0]}?" if near else "see TidegaugeDataSource for those it has"
        )
        raise InvalidOptionError(name, f"the source has no such option; {cure}")
    _check_combination(options)
    return options


def _check_combination(options: Options) -> None:
    starts = [
        name
        for name, is_given in (
            ("startingTime", options.starting_time is not None),
            ("startingCut", options.starting_cut is not None),
            ("startingOffsets=latest", options.latest),
        )
        if is_given
    ]
    if len(starts) > 1:
        raise InvalidOptionError(starts[0], f"cannot go with {starts[1]}; choose one")
    if options.ending_time is not None and options.ending_cut is not None:
        raise InvalidOptionError("endingTime", "cannot go with endingCut; choose one")


def _url(value: str) -> str:
    try:
        return check_url(value)
    except ValueError as error:
        raise InvalidOptionError("url", str(error)) from None


def _stream(value: str) -> str:
    try:
        return str(StreamName.parse(value))
    except ValueError as error:
        raise InvalidOptionError("stream", str(error)) from error


def _token(value: str | None) -> str | None:
    try:
        return None if value is None else check_token(value)
    except InvalidTokenError as error:
        raise InvalidOptionError("token", str(error)) from None


def _group(value: str | None, stream: str) -> str | None:
    """Read ``scope/group``; a name alone is a group of the stream's scope."""
    if value is None:
        return None
    name = value if "/" in value else f"{StreamName.parse(stream).scope}/{value}"
    try:
        return str(parse_group(name))
    except ValueError as error:
        raise InvalidOptionError("readerGroup", str(error)) from error


def _one_of(name: str, value: str, *allowed: str) -> str:
    if value.lower() not in allowed:
        raise InvalidOptionError(name, f"{value!r} is none of {', '.join(allowed)}")
    return value.lower()


def _admission(value: str) -> Admission:
    return "marks" if _one_of("admission", value, "tail", "marks") == "marks" else "tail"


def _flag(name: str, value: str | None) -> bool:
    return value is not None and _one_of(name, value, "true", "false") == "true"


def _time(name: str, value: str | None) -> int | None:
    try:
        return None if value is None else parse_event_time(value)
    except ValueError as error:
        raise InvalidOptionError(name, str(error)) from error


def _cut(name: str, value: str | None) -> Mapping[int, int] | None:
    try:
        return None if value is None else parse_position(value)
    except ValueError as error:
        raise InvalidOptionError(name, str(error)) from error


def _duration(name: str, value: str | None) -> int | None:
    if value is None:
        return None
    match = _DURATION.match(value)
    unit = None if match is None else match[2].lower()
    scale = None if unit is None else _UNITS_MS.get(unit) or _UNITS_MS.get(unit.rstrip("s"))
    if match is None or scale is None or int(match[1]) == 0:
        raise InvalidOptionError(name, f"{value!r} is no duration such as '10 minutes'")
    return int(match[1]) * scale


def _max_rows(value: str | None) -> int | None:
    if value is None:
        return MAX_ROWS
    if value.lower() == "none":
        return None
    if not value.isdigit() or int(value) == 0:
        raise InvalidOptionError(
            "maxRowsPerTrigger", f"{value!r} is no positive number; 'none' lifts the limit"
        )
    return int(value)
