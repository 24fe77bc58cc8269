"""A driver that counts a topic's rows in windows and keeps each batch, to be killed by tests."""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_source import follow
from tests.spark.topic_feed import EVENT_TIME, counted
from tidegauge_cli.demo.kafka.jars import connector_jars


def main(bootstrap: str, url: str, topic: str, folder: Path) -> None:
    """Write the windows of batch 3 to ``3.json``, all at once, and so on."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.jars", ",".join(map(str, connector_jars())))
        .getOrCreate()
    )
    kafka = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest"}
    read = spark.readStream.format("kafka").options(subscribe=topic, **kafka)
    checkpoint = str(folder / "checkpoint")
    followed = follow(
        read.option("maxOffsetsPerTrigger", 20).load(),
        event_time=EVENT_TIME,
        url=url,
        stream=f"spark/{topic}",
        topic=topic,
        checkpoint=checkpoint,
        operators="windows",
    )

    def keep(batch: DataFrame, number: int) -> None:
        written = folder / f"{number}.tmp"
        written.write_text(json.dumps([list(row) for row in batch.collect()]))
        written.rename(folder / f"{number}.json")

    counted(followed).writeStream.foreachBatch(keep).option(
        "checkpointLocation", checkpoint
    ).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
