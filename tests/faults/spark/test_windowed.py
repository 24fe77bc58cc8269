"""Windows of ours with a user's own aggregates, and what cannot be windows."""

from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import windowed
from spark_source.errors import InvalidOptionError, MissingColumnError
from spark_source.processing import aggregates, tumbling
from spark_source.processing.aggregates import count, mean
from tests.spark.feed import DAY, Feed, Followed

_PARTITIONS = "spark.sql.shuffle.partitions"


class Distinct:
    """An aggregate of a user's."""

    column = "number"
    output = "array<bigint>"

    def zero(self) -> frozenset[int]:
        return frozenset()

    def add(self, accumulator: frozenset[int], value: int) -> frozenset[int]:
        return accumulator | {value % 2}

    def merge(self, left: frozenset[int], right: frozenset[int]) -> frozenset[int]:
        return left | right

    def result(self, accumulator: frozenset[int]) -> list[int]:
        return sorted(accumulator)


class Untyped(Distinct):
    column = "offset"
    output = None  # type: ignore[assignment]


def test_what_is_there_is_read_at_once_and_windows_are_those_of_spark(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(100, 2_500, 900, 5_000)
    feed.seal()
    number = F.col("number")
    remainders = windowed(
        _numbered(feed.load(spark))
        .withColumn("of.writer", F.col("writer"))
        .withColumns({"cost": number.cast("decimal(3,1)"), "weight": number.cast("double")}),
        tumbling("2 seconds"),
        key="of.writer",
        aggregates={
            "remainders": Distinct(),
            "latest": aggregates.max("event_time"),
            "costs": aggregates.sum("cost"),
            "weights": aggregates.sum("weight"),
        },
        allowed_lateness="30 days",
    ).output()
    columns = "of.writer", "window", "remainders", "latest", "costs", "weights", "kind", "pane"
    assert remainders.columns == [*columns, "pane_index"]
    # As Spark's own sums.
    assert dict(remainders.dtypes).items() >= {
        ("costs", "decimal(13,1)"),
        ("weights", "double"),
    }
    rows = remainders.select(
        "`of.writer`",
        F.unix_millis(F.window_time("window")) - DAY,
        "remainders",
        F.unix_millis("latest") - DAY,
        "pane",
    )
    with Followed(rows, checkpoint) as followed:
        followed.until_end()
    assert followed.rows == [
        (None, 1_999, [0], 900, "on_time"),
        (None, 3_999, [1], 2_500, "on_time"),
        (None, 5_999, [1], 5_000, "on_time"),
    ]


@pytest.mark.parametrize(("buckets", "other"), [(None, 4), (32, None)])
def test_a_query_goes_on_with_the_buckets_it_began_with_and_no_others(
    spark: SparkSession, feed: Feed, checkpoint: str, *, buckets: int | None, other: int | None
) -> None:
    """The default follows the partitions of state, which a restart with others keeps."""

    def start(buckets: int | None) -> Followed:
        counted = windowed(
            _numbered(feed.load(spark)),
            tumbling("2 seconds"),
            key="key",
            aggregates={"n": count()},
            buckets=buckets,
        )
        return Followed(counted.output().select("key", "n"), checkpoint)

    for number in range(20):
        feed.write(100, key=f"k{number}")
    feed.note(200)
    with start(buckets) as followed:
        followed.until_read(200)
    for number in range(20):
        feed.write(300, key=f"k{number}")
    feed.note(4_000)
    words = "the state was saved with buckets = "
    with start(other) as refused, pytest.raises(StreamingQueryException, match=words):
        refused.until_read(4_000)
    partitions = spark.conf.get(_PARTITIONS) or ""
    spark.conf.set(_PARTITIONS, "3")
    try:
        with start(buckets) as followed:
            followed.until_read(4_000)
            assert sorted(followed.rows) == sorted((f"k{n}", 2) for n in range(20))
    finally:
        spark.conf.set(_PARTITIONS, partitions)


def _numbered(df: DataFrame) -> DataFrame:
    return df.withColumn("number", F.col("offset"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"aggregates": {}}, "'aggregates': there are none"),
        ({"aggregates": {"pane": count()}}, "another column 'pane'"),
        ({"key": "segment"}, "'key': the output has another column 'segment'"),
        ({"key": "nothing"}, "no column 'nothing'"),
        ({"aggregates": {"m": mean("nothing")}}, "no column 'nothing'"),
        (
            {"aggregates": {"m": mean("key")}},
            "'m' is the mean of column 'key', which is string",
        ),
        ({"allowed_lateness": "soon"}, "'soon' is not a duration"),
        ({"aggregates": {"own": Untyped()}}, "'own' does not say its type"),
        ({"buckets": 0}, "'buckets'"),
        ({"assigner": "1 hour"}, "'1 hour' makes no windows; pass tumbling"),
        ({"aggregates": {"n": mean("its.delay")}}, "'its.delay' has a dot; make one without"),
        ({"aggregates": {"n": "count"}}, "'n': 'count' is not an aggregate; pass one such as"),
    ],
)
def test_what_cannot_be_windows_is_refused_before_a_query_starts(
    spark: SparkSession, feed: Feed, changes: dict[str, Any], message: str
) -> None:
    options: dict[str, Any] = {
        "assigner": tumbling("1 hour"),
        "key": "key",
        "aggregates": {"n": count()},
    }
    with pytest.raises((InvalidOptionError, MissingColumnError), match=message):
        windowed(feed.load(spark), **(options | changes))
