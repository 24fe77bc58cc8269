"""A driver that processes a stream until its end and keeps each batch, to be killed by tests."""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from spark_source import process, read_stream
from tests.spark.processors import Visits


def main(url: str, stream: str, folder: Path) -> None:
    """Run the query to its end."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    start(spark, url, stream, folder).awaitTermination()


def start(spark: SparkSession, url: str, stream: str, folder: Path) -> StreamingQuery:
    """Write the rows of batch 3 to ``3.json``, all at once, and so on."""
    readings = (
        read_stream(spark, url=url, stream=stream, maxRowsPerTrigger=100)
        .withColumn("number", F.col("offset"))
        .withColumn("shown", F.col("value").cast("string"))
    )
    visits = process(readings, Visits(), columns=["number", "shown"], buckets=4)

    def keep(batch: DataFrame, number: int) -> None:
        rows = batch.select("output", F.to_json("main"), F.to_json("silent"), "late.offset")
        written = folder / f"{number}.tmp"
        written.write_text(json.dumps([list(row) for row in rows.collect()]))
        written.rename(folder / f"{number}.json")

    writer = visits.frame.writeStream.foreachBatch(keep).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
