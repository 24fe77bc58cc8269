"""What stands in where a version of Spark lacks something; no Spark runs."""

import logging
import runpy
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from spark_source import compatibility
from spark_source.errors import InvalidOptionError, UnsupportedSparkError
from spark_source.source.planner import Offset

pytestmark = pytest.mark.every_spark
_OF_4_2: Any = SimpleNamespace(ReadLimit=object, SupportsTriggerAvailableNow=object)


class _Reader:
    """A reader of 4.2: it has rows up to a tail, and takes two at a time."""

    def __init__(self) -> None:
        self.begin = self.tail = 1
        self.asked: list[int] = []

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's)
        return {"at": self.begin}

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:  # noqa: ARG002, N802
        self.asked.append(start["at"])
        return {"at": min(start["at"] + 2, self.tail)}

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"stream": "spark/s", "reader_group": None, "lag_ms": 7, "backlog_rows": 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[range]:
        return [range(start["at"], end["at"])]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load what a version of PySpark makes of the module."""

    def load_as(version: str) -> SimpleNamespace:
        monkeypatch.setattr("pyspark.version.__version__", version)
        monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", _OF_4_2)
        return SimpleNamespace(**runpy.run_path(compatibility.__file__))

    return load_as


@pytest.fixture
def reader() -> _Reader:
    return _Reader()


@pytest.fixture
def asked(load: Any, reader: _Reader) -> Any:
    """The reader, as Spark 4.1 asks it."""
    return load("4.1.4").for_this_spark(reader)


@pytest.mark.parametrize("version", ["4.0.5", "4.4.0", "5.0.0.dev1"])
def test_another_version_of_spark_is_refused_in_one_line(load: Any, version: str) -> None:
    with pytest.raises(UnsupportedSparkError) as refused:
        load(version)
    assert str(refused.value) == (
        f"PySpark {version} is not supported: Tidegauge runs on 4.1, 4.2 and 4.3; "
        "run pip install 'pyspark>=4.1,<4.4'"
    )


def test_a_spark_that_tells_where_a_batch_starts_asks_the_reader_itself(
    load: Any, reader: _Reader
) -> None:
    for version in ("4.2.1", "4.3.0"):
        assert load(version).for_this_spark(reader) is reader


def test_a_batch_starts_where_the_newest_ends_and_brings_what_is_reported(
    asked: Any, reader: _Reader
) -> None:
    reader.tail = 9
    first = asked.latestOffset()
    reader.begin = 5
    assert asked.initialOffset() == {"at": 1}  # Spark asks for it once the end is there
    assert first.pop("report") == {
        "stream": "spark/s",
        "reader_group": None,
        "lag_ms": 7,
        "backlog_rows": 1,
    }
    assert first == {"at": 3}
    assert asked.latestOffset()["at"] == 5


def test_without_anything_new_the_end_is_the_same_text(asked: Any, reader: _Reader) -> None:
    assert asked.latestOffset() == {"at": 1}
    reader.tail = 2
    end = asked.latestOffset()
    assert asked.latestOffset() == end != {"at": 1}


def test_a_query_that_starts_again_goes_on_where_its_newest_batch_ends(
    asked: Any, reader: _Reader
) -> None:
    reader.tail = 9
    assert asked.partitions({"at": 4}, {"at": 4}) == []  # as Spark tells the newest end
    assert asked.partitions({"at": 2}, {"at": 4}) == [range(2, 4)]  # and repeats that batch
    assert asked.latestOffset()["at"] == 6
    assert reader.asked == [4]


def test_a_wrapper_that_hides_where_a_query_stands_is_refused(
    asked: Any, reader: _Reader
) -> None:
    """It asks for the end before it tells where the query that starts again is."""
    reader.tail = 9
    first = asked.latestOffset()
    assert asked.partitions({"at": 1}, first) == [range(1, 3)]
    end = asked.latestOffset()
    again = type(asked)(reader)
    fetched = again.latestOffset()
    with pytest.raises(InvalidOptionError, match=r"triggerAvailableNowWrapper.enabled.*false"):
        again.partitions(end, fetched)


def test_what_is_reported_and_what_is_planned_are_read_apart() -> None:
    report = {"reader_group": "s/g", "lag_ms": 7}
    assert compatibility.report_of(report) == report
    assert compatibility.report_of({"bound": 1, "report": report}) == report
    stored = {"stream_id": "s", "position": {}, "bound": 1, "revision": 1, "run": 1}
    assert Offset.from_json(stored | {"report": report}) == Offset.from_json(stored)


def test_an_offset_in_the_words_of_python_is_read_where_spark_uses_them(load: Any) -> None:
    said = "{'bound': None, 'at': {'0': 2}}"
    assert load("4.1.4").read_offset(said) == {"bound": None, "at": {"0": 2}}
    with pytest.raises(ValueError, match="Expecting property name"):
        load("4.2.1").read_offset(said)
    for version in ("4.1.4", "4.2.1"):
        assert load(version).read_offset('{"bound": null}') == {"bound": None}
        with pytest.raises(ValueError):
            load(version).read_offset("tick 7 of 9")


def test_a_trigger_that_ends_too_early_is_warned_of_once(
    load: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    old, new = load("4.1.4"), load("4.2.1")
    for _ in range(2):
        old.warn_of_available_now()
        new.warn_of_available_now()
    (warning,) = caplog.messages
    assert "query.processAllAvailable()" in warning
