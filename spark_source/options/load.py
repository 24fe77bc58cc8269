"""The options of the source; one that it does not have is an error."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from spark_source.errors import InvalidOptionError
from spark_source.options.durations import duration_ms
from spark_source.options.given import GivenOptions, one_of
from spark_source.options.kafka import KafkaTopic, read_kafka_options
from spark_source.options.sink import Place, place_options
from tidegauge.event_time import parse_event_time
from tidegauge.names import StreamName, parse_group
from tidegauge.positions import parse_position

Admission: TypeAlias = Literal["tail", "marks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Place):
    """What a load is given; the fields are the options of `TidegaugeDataSource`."""

    reader_group: str | None = None
    latest: bool = False
    starting_time: int | None = None
    starting_cut: Mapping[int, int] | None = None
    ending_time: int | None = None
    ending_cut: Mapping[int, int] | None = None
    allow_incomplete: bool = False
    max_event_time_ms: int | None = None
    max_rows: int | None = 1_000_000
    admission: Admission = "tail"
    min_time_step_ms: int = 1_000
    fail_on_data_loss: bool = True
    out_of_range_as_null: bool = False
    max_rows_of_partition: int | None = None
    time_is_expression: bool = False
    kafka: KafkaTopic | None = None


def read_options(given: Mapping[str, str]) -> Options:
    """Read the options of a load, whatever the case of their names; refuse with the cure."""
    asked = GivenOptions(given, of="the source", listed="TidegaugeDataSource")
    take, place = asked.take, place_options(asked)
    scope = StreamName.parse(place["stream"]).scope
    options = Options(
        **place,
        reader_group=take("readerGroup", lambda value: _group(value, scope)),
        latest=take("startingOffsets", one_of("earliest", "latest"), "earliest") == "latest",
        starting_time=take("startingTime", parse_event_time),
        starting_cut=take("startingCut", parse_position),
        ending_time=take("endingTime", partial(parse_event_time, up=True)),
        ending_cut=take("endingCut", parse_position),
        allow_incomplete=take("allowIncomplete", one_of("true", "false")) == "true",
        max_event_time_ms=take("maxEventTimePerTrigger", _duration),
        max_rows=take("maxRowsPerTrigger", _max_rows, "1000000"),
        admission="marks"
        if take("admission", one_of("tail", "marks"), "tail") == "marks"
        else "tail",
        min_time_step_ms=take("minTimeStep", _duration) or 1_000,
        fail_on_data_loss=take("failOnDataLoss", one_of("true", "false"), "true") == "true",
        out_of_range_as_null=take("outOfRange", one_of("fail", "null"), "fail") == "null",
        max_rows_of_partition=take("maxRowsPerPartition", _max_rows),
        time_is_expression=take("eventTime", one_of("stored", "expression")) == "expression",
        kafka=read_kafka_options(asked, stream=place["stream"]),
    )
    of_read_stream = ("operators", "dedup_horizon", "event_time", "name")
    asked.refuse_others(**{name: f"{name}= of read_stream()" for name in of_read_stream})
    _check_combination(options)
    return options


def _check_combination(options: Options) -> None:
    given = {
        "startingTime": options.starting_time is not None,
        "startingCut": options.starting_cut is not None,
        "startingOffsets=latest": options.latest,
    }
    starts = [name for name, is_given in given.items() if is_given]
    if len(starts) > 1:
        raise InvalidOptionError(starts[0], f"cannot be combined with {starts[1]}; choose one")
    if options.ending_time is not None and options.ending_cut is not None:
        raise InvalidOptionError("endingTime", "cannot be combined with endingCut; choose one")


def _group(value: str, scope: str) -> str:
    """Read ``scope/group``; a name alone is a group of the stream's scope."""
    return str(parse_group(value if "/" in value else f"{scope}/{value}"))


def _duration(value: str) -> int:
    duration = duration_ms(value)
    if duration == 0:
        msg = f"{value!r} is not a duration such as '10 minutes'"
        raise ValueError(msg)
    return duration


def _max_rows(value: str) -> int | None:
    if value.lower() == "none":
        return None
    if not value.isdigit() or int(value) == 0:
        msg = f"{value!r} is not a positive number; 'none' lifts the limit"
        raise ValueError(msg)
    return int(value)
