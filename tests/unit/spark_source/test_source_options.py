"""The options of the Spark source, as Spark hands them over: text."""

import inspect
import re

import pytest

from spark_source import TidegaugeDataSource, read_stream
from spark_source.frames.watermark import _SHOWN_OPTION
from spark_source.options.load import Options, read_options

_NEEDED = {"url": "http://127.0.0.1:8470", "stream": "demo/rides"}
_TOPIC = _NEEDED | {"log": "kafka", "kafka.bootstrap.servers": "broker:9092"}


def test_what_is_left_out_has_a_default() -> None:
    assert read_options(_NEEDED) == Options(
        url="http://127.0.0.1:8470",
        stream="demo/rides",
        max_rows=1_000_000,
        admission="tail",
        min_time_step_ms=1_000,
        fail_on_data_loss=True,
    )


FINER = "1970-01-01T00:00:00.0015Z"
"""Finer than a millisecond; nothing of it is left out at either end."""


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("MAXROWSPERTRIGGER", "none", "max_rows", None),  # Spark changes the case of names
        ("maxrowsperpartition", "5000", "max_rows_of_partition", 5_000),
        ("failondataloss", "False", "fail_on_data_loss", False),
        ("readerGroup", "counts", "reader_group", "demo/counts"),
        ("readerGroup", "other/counts", "reader_group", "other/counts"),
        ("maxEventTimePerTrigger", "10 minutes", "max_event_time_ms", 600_000),
        ("maxEventTimePerTrigger", "1h", "max_event_time_ms", 3_600_000),
        ("maxEventTimePerTrigger", "1500 ms", "max_event_time_ms", 1_500),
        ("maxEventTimePerTrigger", "2 Days", "max_event_time_ms", 172_800_000),
        ("startingTime", FINER, "starting_time", 1),
        ("endingTime", FINER, "ending_time", 2),
    ],
)
def test_an_option_is_read_as_spark_writes_it(
    name: str, text: str, field: str, value: object
) -> None:
    assert getattr(read_options(_NEEDED | {name: text}), field) == value


def test_a_topic_has_the_name_of_its_stream_unless_it_is_told() -> None:
    found = read_options(_TOPIC).kafka
    assert found is not None
    assert (found.name, found.settings) == ("rides", (("bootstrap.servers", "broker:9092"),))
    named = read_options(_TOPIC | {"topic": "o"}).kafka
    assert named is not None
    assert named.name == "o"
    assert read_options(_NEEDED).kafka is None


def test_a_password_is_not_in_the_text_of_options_and_redacted_in_a_request_over_connect() -> (
    None
):
    assert "hidden" not in repr(read_options(_TOPIC | {"kafka.sasl.password": "hidden"}))
    request = 'key: "kafka.sasl.password"\n  value: "hid\\"den"\n} key: "topic" value: "o"'
    assert re.sub(_SHOWN_OPTION, "*", request) == '*\n} key: "topic" value: "o"'


def test_each_option_is_a_keyword_of_read_stream() -> None:
    reads, _ = (TidegaugeDataSource.__doc__ or "").split("| option of a write |")
    options = set(re.findall(r"^ *\| ``(\w+)``", reads, re.MULTILINE)) - {"eventTime"}
    assert len(options) == 19
    parameters = inspect.signature(read_stream).parameters
    keywords = {name for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert keywords - options == {"operators", "dedup_horizon", "name", "event_time"}
    assert options <= keywords
