"""The options of the Spark source, as Spark hands them over: text."""

import inspect
import re

import pytest

from spark_source import TidegaugeDataSource, read_stream
from spark_source.errors import InvalidOptionError
from spark_source.options.load import Options, read_options

_NEEDED = {"url": "http://127.0.0.1:8470", "stream": "demo/rides"}


def test_what_is_left_out_has_a_default() -> None:
    assert read_options(_NEEDED) == Options(
        url="http://127.0.0.1:8470",
        stream="demo/rides",
        max_rows=1_000_000,
        admission="tail",
        min_time_step_ms=1_000,
        fail_on_data_loss=True,
    )


def test_names_are_read_in_any_case_as_spark_changes_it() -> None:
    given = _NEEDED | {"MAXROWSPERTRIGGER": "none", "failondataloss": "False"}
    found = read_options(given | {"maxrowsperpartition": "5000"})
    assert (found.max_rows, found.fail_on_data_loss) == (None, False)
    assert found.max_rows_of_partition == 5_000


@pytest.mark.parametrize(
    ("text", "group"), [("counts", "demo/counts"), ("other/counts", "other/counts")]
)
def test_a_group_without_a_scope_has_that_of_the_stream(text: str, group: str) -> None:
    assert read_options(_NEEDED | {"readerGroup": text}).reader_group == group


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("10 minutes", 600_000), ("1h", 3_600_000), ("1500 ms", 1_500), ("2 Days", 172_800_000)],
)
def test_durations_are_read_as_spark_writes_them(text: str, duration_ms: int) -> None:
    given = _NEEDED | {"maxEventTimePerTrigger": text}
    assert read_options(given).max_event_time_ms == duration_ms


def test_a_read_starts_and_ends_so_that_nothing_finer_than_a_millisecond_is_left_out() -> None:
    finer = "1970-01-01T00:00:00.0015Z"
    found = read_options(_NEEDED | {"startingTime": finer, "endingTime": finer})
    assert (found.starting_time, found.ending_time) == (1, 2)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"stream": "rides"}, "option 'stream': 'rides' names no stream"),
        (
            {"maxRowPerTrigger": "5"},
            "'maxRowPerTrigger': the source has no such option; did you mean maxRowsPerTrigger?",
        ),
        ({"operatrs": "windows"}, "did you mean operators= of read_stream()?"),
        (
            {"strem": "demo/rides", "stream": None},
            "'strem': the source has no such option; did you mean stream?",
        ),
        (
            {"logs": "kafka", "topic": "rides"},
            "'logs': the source has no such option; did you mean log?",
        ),
        (
            {"log": "kafka", "kafka.boostrap.servers": "broker:9092"},
            "'kafka.boostrap.servers': the source has no such option; did you mean kafka.bootstrap.servers?",
        ),
        ({"colour": "red"}, "no such option; see TidegaugeDataSource for those it has"),
        ({"url": "127.0.0.1:8470"}, "option 'url': '127.0.0.1:8470' is not a service URL"),
        ({"maxRowsPerTrigger": "0"}, "'0' is not a positive number; 'none' lifts the limit"),
        ({"admission": "all"}, "'all' is not one of tail, marks"),
        ({"failOnDataLoss": "maybe"}, "'maybe' is not one of true, false"),
        ({"startingTime": "noon"}, "'noon' is not an event time"),
        ({"startingCut": "7"}, "'7' is not a position; write segment:offset"),
        ({"maxEventTimePerTrigger": "0 s"}, "'0 s' is not a duration such as '10 minutes'"),
        ({"readerGroup": "a/b/c"}, "'a/b/c' names no reader group"),
        ({"startingTime": "1", "startingOffsets": "latest"}, "cannot be combined with"),
        ({"endingTime": "1", "endingCut": "0:1"}, "cannot be combined with endingCut"),
    ],
)
def test_an_option_that_cannot_be_is_named_with_the_cure(
    given: dict[str, str | None], problem: str
) -> None:
    options = {name: value for name, value in (_NEEDED | given).items() if value is not None}
    with pytest.raises(InvalidOptionError) as raised:
        read_options(options)
    assert problem in str(raised.value)


@pytest.mark.parametrize("name", ["url", "stream"])
def test_what_is_needed_is_asked_for(name: str) -> None:
    given = {key: value for key, value in _NEEDED.items() if key != name}
    with pytest.raises(InvalidOptionError, match=f"option '{name}': is required"):
        read_options(given)


def test_each_option_is_a_keyword_of_read_stream() -> None:
    reads, _ = (TidegaugeDataSource.__doc__ or "").split("| option of a write |")
    options = set(re.findall(r"^ *\| ``(\w+)``", reads, re.MULTILINE)) - {"eventTime"}
    assert len(options) == 19
    parameters = inspect.signature(read_stream).parameters
    keywords = {name for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert keywords - options == {"operators", "dedup_horizon", "name", "event_time"}
    assert options <= keywords
