"""What is refused at once, and the text that says what to do: a call and its text."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from spark_source.errors import InvalidOptionError
from spark_source.following import tick_source
from spark_source.options.load import read_options
from spark_source.processing import (
    SessionWindows,
    SlidingWindows,
    WindowSettings,
    bucket_of,
    tumbling,
)
from spark_source.processing.aggregates import count, mean
from spark_source.testing import ProcessorHarness
from tests.conformance.processors import Echo

NEEDED = {"url": "http://127.0.0.1:8470", "stream": "demo/rides"}
SERVERS = {"kafka.bootstrap.servers": "broker:9092"}
KAFKA = NEEDED | {"log": "kafka"}
TOPIC = KAFKA | SERVERS


def _windows(**changes: Any) -> WindowSettings:
    given: dict[str, Any] = {"assigner": SlidingWindows(10, 10), "aggregates": {"n": count()}}
    return WindowSettings(**(given | changes))


def _follow(**options: str) -> object:
    return tick_source._read_options({"checkpoint": "/c", "table": "/t", **options})


def _fall() -> None:
    harness = ProcessorHarness(Echo())
    harness.advance(10)
    harness.advance(9)


LOADS: list[tuple[dict[str, str], str]] = [
    ({"stream": "demo/rides"}, "option 'url': is required"),
    ({"url": "http://127.0.0.1:8470"}, "option 'stream': is required"),
    (NEEDED | {"stream": "rides"}, "option 'stream': 'rides' names no stream"),
    (
        NEEDED | {"maxRowPerTrigger": "5"},
        "'maxRowPerTrigger': the source has no such option; did you mean maxRowsPerTrigger?",
    ),
    (NEEDED | {"operatrs": "windows"}, "did you mean operators= of read_stream()?"),
    ({"url": "http://127.0.0.1:8470", "strem": "demo/rides"}, "did you mean stream?"),
    (NEEDED | {"logs": "kafka", "topic": "rides"}, "did you mean log?"),
    (KAFKA | {"kafka.boostrap.servers": "b:9092"}, "did you mean kafka.bootstrap.servers?"),
    (NEEDED | {"colour": "red"}, "no such option; see TidegaugeDataSource for those it has"),
    (NEEDED | {"url": "127.0.0.1:8470"}, "'127.0.0.1:8470' is not a service URL"),
    (
        NEEDED | {"maxRowsPerTrigger": "0"},
        "'0' is not a positive number; 'none' lifts the limit",
    ),
    (NEEDED | {"admission": "all"}, "'all' is not one of tail, marks"),
    (NEEDED | {"failOnDataLoss": "maybe"}, "'maybe' is not one of true, false"),
    (NEEDED | {"startingTime": "noon"}, "'noon' is not an event time"),
    (NEEDED | {"startingCut": "7"}, "'7' is not a position; write segment:offset"),
    (
        NEEDED | {"maxEventTimePerTrigger": "0 s"},
        "'0 s' is not a duration such as '10 minutes'",
    ),
    (NEEDED | {"readerGroup": "a/b/c"}, "'a/b/c' names no reader group"),
    (NEEDED | {"startingTime": "1", "startingOffsets": "latest"}, "cannot be combined with"),
    (NEEDED | {"endingTime": "1", "endingCut": "0:1"}, "cannot be combined with endingCut"),
    (KAFKA, "'kafka.bootstrap.servers': is required"),
    (KAFKA | {"kafka.bootstrap.servers": ""}, "'kafka.bootstrap.servers': is required"),
    (TOPIC | {"topic": ""}, "'topic': is empty; leave it out"),
    (TOPIC | {"log": "embedded"}, "set log=kafka"),
    (NEEDED | {"topic": "o"}, "set log=kafka"),
    (TOPIC | {"log": "pulsar"}, "'pulsar' is not one of embedded, kafka"),
    (
        TOPIC | {"kafka.isolation.level": "read_uncommitted"},
        "'kafka.isolation.level': is set by the source",
    ),
    (
        TOPIC | {"kafka.ssl.key.pem": "hidden"},
        "name a file, with kafka.ssl.key.location",
    ),
]
REFUSED: list[tuple[Callable[[], object], str]] = [
    *((partial(read_options, given), text) for given, text in LOADS),
    (partial(_follow, stream="lake/hourly"), "'url': is required"),
    (partial(_follow, url="http://127.0.0.1:1"), "'stream': is required"),
    (partial(tumbling, "12 hours", zone="Europe/Paris"), "'12 hours': with zone= windows"),
    (partial(tumbling, "1 day", "6 h", zone="Europe/Paris"), "'offset': '6 h': with zone="),
    (partial(tumbling, "0 days", zone="Europe/Paris"), "0 days; it has to be at least 1"),
    (partial(tumbling, "1 day", zone="Paris"), "'Paris' is not a time zone here; name"),
    (partial(tumbling, "soon"), "'soon' is no"),
    (partial(tumbling, "-1 hour"), "'-1 hour' is no"),
    (partial(tumbling, timedelta(microseconds=1)), "microseconds=1) is no"),
    (partial(tumbling, 10), "10 is no"),
    *(
        (partial(SlidingWindows, size, slide), "'slide'")
        for size, slide in ((10, 0), (10, 11), (0, 0), (10, -5), (-10, -10))
    ),
    (partial(SessionWindows, 0), "'gap'"),
    (partial(_windows, lateness_ms=-1), "-1 ms is below 0"),
    (
        partial(_windows, accumulation="some"),
        "'some' is not one of accumulating, discarding,",
    ),
    (partial(_windows, trigger="never"), "'never' is not one of on_time, early"),
    (
        partial(_windows, aggregates={"x": mean("y")}),
        "'x' is of column 'y'; there are: value",
    ),
    *(
        (partial(ProcessorHarness, Echo(), columns=[name]), "rename the column")
        for name in ("time", "offset", "a b", "class")
    ),
    (
        partial(ProcessorHarness, Echo(), at_end="stop"),  # type: ignore[arg-type]
        "is not one of drain, suspend",
    ),
    (
        partial(ProcessorHarness(Echo()).send, "a", 10, 1, 2),
        "not the values of the columns",
    ),
    (_fall, "never falls"),
    (partial(bucket_of, 1j, 2), "key 1j is a complex"),
    (partial(bucket_of, 1j, 2), "; cast the column to string"),
]


@pytest.mark.parametrize(("call", "text"), REFUSED)
def test_what_cannot_be_meant_is_refused_with_the_cure(
    call: Callable[[], object], text: str
) -> None:
    with pytest.raises((InvalidOptionError, TypeError, ValueError)) as refused:
        call()
    assert text in str(refused.value)
    assert "hidden" not in str(refused.value)
