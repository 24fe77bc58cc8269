"""The sink's batches, gathered and published in this process as Spark asks for it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType, TimestampType

from spark_source import TidegaugeDataSource
from spark_source.errors import InvalidOptionError, UnknownColumnsError
from tests.service.in_process import Service
from tests.spark.feed import DAY
from tests.spark.targets import Target
from tidegauge.errors import UnknownStreamError
from tidegauge.event_time import END_OF_TIME

_NUMBERS = count(1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COLUMNS = StructType(
    [
        StructField("key", StringType()),
        StructField("event_time", TimestampType()),
        StructField("value", BinaryType()),
    ]
)


@pytest.fixture
def target(service: Service) -> Iterator[Target]:
    name = f"sink/target-{next(_NUMBERS)}"
    with service.reached_by_clients(), Target(service.url, name, transport=service) as target:
        target.create(segments=2)
        yield target


class _Query:
    """A query without state that writes to a target, batch by batch."""

    def __init__(self, target: Target, checkpoint: Path, **options: str) -> None:
        self._options = {"url": target.url, "stream": target.stream, **options}
        self._options["checkpointLocation"] = str(checkpoint)
        self._offsets = checkpoint / "offsets"
        self._offsets.mkdir(exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": checkpoint.name}))

    def write(self, number: int, *tasks: pa.RecordBatch, bound: int | None) -> None:
        """Do a batch, of which each task has some rows."""
        end = {"stream_id": "s", "bound": bound}
        entry = f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(end)}'
        (self._offsets / str(number)).write_text(entry)
        written = [self._sink().write(iter([rows])) for rows in tasks]
        self._sink().commit(written, number)

    def _sink(self) -> Any:
        """Make one for the tasks, or another for the commit, as Spark does."""
        return TidegaugeDataSource(self._options).streamWriter(_COLUMNS, overwrite=False)


@pytest.fixture
def query(target: Target, tmp_path: Path) -> _Query:
    return _Query(target, tmp_path)


def _rows(*rows: tuple[str | None, int, bytes]) -> pa.RecordBatch:
    """Make rows of a key, a time, a day later, and a value."""
    schema = pa.schema(
        [
            ("key", pa.string()),
            ("event_time", pa.timestamp("us", "UTC")),
            ("value", pa.binary()),
        ]
    )
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    times = [_EPOCH + timedelta(milliseconds=DAY + at) for at in columns[1]]
    return pa.record_batch([list(columns[0]), times, list(columns[2])], schema=schema)


def test_a_batch_that_comes_again_is_written_once_and_one_without_rows_notes_as_well(
    target: Target, query: _Query
) -> None:
    for _ in range(2):
        query.write(0, _rows(("a", 1_000, b"x")), _rows(("b", 9_000, b"y")), bound=None)
    assert target.watermark is None
    query.write(1, _rows(), bound=DAY + 7_000)
    assert target.rows() == [("a", 1_000, b"x"), ("b", 9_000, b"y")]
    assert target.watermark == 7_000


def test_the_end_seals_the_target_once_where_that_is_wanted(
    target: Target, query: _Query, tmp_path: Path
) -> None:
    query.write(0, _rows(("a", 1_000, b"x")), bound=DAY + 5_000)
    query.write(1, _rows(), bound=END_OF_TIME)
    assert target.watermark == 5_000  # it stays open where it was
    sealing = _Query(target, tmp_path, seal="true")
    sealing.write(2, _rows(), bound=END_OF_TIME)
    assert target.watermark == END_OF_TIME
    sealing.write(3, _rows(), bound=END_OF_TIME)  # has nothing to add
    assert len(target.rows()) == 1


@pytest.mark.parametrize("tasks", [1, 6])
def test_more_than_a_request_is_published_as_one_batch(
    target: Target, query: _Query, tasks: int
) -> None:
    """Of one task, which stages it, or of several that each have too little for that."""
    large = [_rows((str(number), number, b"v" * 4_000_000)) for number in range(6)]
    if tasks == 1:
        (whole,) = pa.Table.from_batches(large).combine_chunks().to_batches()
        large = [whole]
    query.write(0, *large, bound=DAY + 1_000)
    found = [(key, at, len(value)) for key, at, value in target.rows()]
    assert found == [(str(number), number, 4_000_000) for number in range(6)]
    assert target.watermark == 1_000


def test_rows_that_are_no_events_are_refused(target: Target, query: _Query) -> None:
    with pytest.raises(InvalidOptionError, match="'key': is null in a row"):
        query.write(0, _rows((None, 1_000, b"v")), bound=None)
    year_10000 = pa.record_batch(
        [["the row"], [253_402_300_800_000], [b"v"]], names=["key", "event_time", "value"]
    )
    unreadable = r"no reader can hold 253402300800000.*key is 'the row'"
    with pytest.raises(ValueError, match=unreadable):
        query.write(0, year_10000, bound=None)
    assert target.rows() == []


def test_a_wrong_target_is_refused_with_the_cure_and_so_are_other_columns(
    target: Target, tmp_path: Path
) -> None:
    cure = "no stream spark/none; to create it: tidegauge create spark/none"
    with pytest.raises(UnknownStreamError, match=cure):
        _Query(target, tmp_path, stream="spark/none").write(0, bound=None)
    source = TidegaugeDataSource({"url": target.url, "stream": target.stream, "writer": "w"})
    other = StructType([StructField("offset", StringType())])
    with pytest.raises(UnknownColumnsError, match=r"write_stream\(\) and as_events\(\) make"):
        source.writer(other, overwrite=False)


def test_a_batch_write_is_one_transaction_and_notes_only_when_asked(target: Target) -> None:
    def write(**more: str) -> None:
        given = {"url": target.url, "stream": target.stream, "writer": "nightly", **more}
        sink = TidegaugeDataSource(given).writer(_COLUMNS, overwrite=False)
        tasks = [_rows((f"k{number}", number, b"v")) for number in range(4)]
        sink.commit([sink.write(iter([rows])) for rows in tasks])

    write()
    written = [(f"k{number}", number, b"v") for number in range(4)]
    assert (target.rows(), target.watermark) == (written, None)
    write(noteTime=str(DAY + 100))
    assert len(target.rows()) == 8
    assert target.watermark == 100
    assert target.writers == {"nightly": "left"}
