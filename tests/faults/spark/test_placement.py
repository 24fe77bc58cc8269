"""The names of buckets against Spark's own hash."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source.operators.placement import even_names, names_of_buckets, saved_number


@pytest.mark.every_spark
def test_bucket_n_has_the_next_name_that_spark_places_in_partition_n(
    spark: SparkSession,
) -> None:
    for partitions in (1, 2, 3, 200):
        names = even_names(partitions)
        place = F.pmod(F.hash(F.col("id").cast("int")), F.lit(partitions))
        rows = spark.range(max(names) + 1).select("id", place.alias("place")).collect()
        placed = {
            partition: sorted(row.id for row in rows if row.place == partition)
            for partition in range(partitions)
        }
        firsts = [placed[partition][0] for partition in range(partitions)]
        assert names == [*firsts, *(placed[partition][1] for partition in range(partitions))]
    assert even_names(2) == [2, 0, 4, 1]


def test_a_number_of_the_users_own_keeps_the_names_and_the_number_that_state_has() -> None:
    assert list(names_of_buckets(5)) == [0, 1, 2, 3, 4]
    assert saved_number(5) == 5
