"""The options of the sink; one that it does not have is an error."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_source.errors import InvalidOptionError
from spark_source.options.durations import duration_ms
from spark_source.options.given import GivenOptions
from tidegauge.client.addresses import check_token, check_urls
from tidegauge.event_time import parse_event_time
from tidegauge.names import StreamName, check_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a stream is; the fields are options of `TidegaugeDataSource`."""

    url: str
    stream: str
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSinkOptions(Place):
    """What a query is given."""

    checkpoint: str
    output_delay_ms: int = 0
    seal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSinkOptions(Place):
    """What a batch write is given."""

    writer: str
    note_time: int | None = None


def read_stream_options(given: Mapping[str, str]) -> StreamSinkOptions:
    """Read the options of a query."""
    asked = _asked(given)
    options = StreamSinkOptions(
        **place_options(asked),
        checkpoint=_checkpoint(asked),
        output_delay_ms=asked.take("outputDelay", duration_ms) or 0,
        seal=asked.is_true("seal"),
    )
    asked.take("queryName", str)  # Spark hands the query's own name over among the options
    asked.refuse_others()
    return options


def read_batch_options(given: Mapping[str, str]) -> BatchSinkOptions:
    """Read the options of a batch write."""
    asked = _asked(given)
    options = BatchSinkOptions(
        **place_options(asked),
        writer=asked.need("writer", check_name, "nightly"),
        note_time=asked.take("noteTime", parse_event_time),
    )
    asked.refuse_others()
    return options


def _asked(given: Mapping[str, str]) -> GivenOptions:
    return GivenOptions(given, of="the sink", listed="TidegaugeDataSource")


def read_place(**given: str | None) -> Place:
    """Read where a stream is, and nothing else."""
    known = {name: value for name, value in given.items() if value is not None}
    return Place(**place_options(_asked(known)))


def place_options(asked: GivenOptions) -> dict[str, Any]:
    """Read the fields of a `Place`."""
    return {
        "url": asked.need("url", check_urls, "http://127.0.0.1:8470"),
        "stream": str(asked.need("stream", StreamName.parse, "demo/hourly")),
        "token": asked.take("token", check_token),
    }


def _checkpoint(asked: GivenOptions) -> str:
    place = asked.take("checkpointLocation", str)
    if place is None:
        cure = (
            "is required: it says which batches are stored already. Set it on the query itself, "
            "not in the session's configuration"
        )
        raise InvalidOptionError("checkpointLocation", cure)
    return place
