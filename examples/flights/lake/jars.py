"""Delta's jars, and whether they fit the Spark that is installed."""

import re
from pathlib import Path

import pyspark

from examples.flights.waiting import DemoFailedError

_CURE = "make demo-lake sets up an environment that has both"


def delta_jars(folder: Path | None) -> list[Path]:
    """List Delta's jars in a folder, for ``spark.jars``.

    Raises
    ------
    DemoFailedError
        If they are missing, or made for another Spark than this one; it says the cure.
    """
    jars = [] if folder is None else sorted(folder.glob("*.jar"))
    made_for = {
        found[1] for jar in jars if (found := re.match(r"delta-spark_([\d.]+)_", jar.name))
    }
    if not made_for:
        place = "no folder is named" if folder is None else f"{folder} has none"
        msg = f"Delta's jars for Spark are missing: {place}; pass --jars FOLDER, or {_CURE}"
        raise DemoFailedError(msg)
    spark = ".".join(pyspark.__version__.split(".")[:2])
    if spark not in made_for:
        msg = f"these jars of Delta are for Spark {', '.join(made_for)}, and this is {spark}; {_CURE}"
        raise DemoFailedError(msg)
    return jars


DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    # What runs for minutes never earns the second compilation.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings of a small session that writes Delta tables."""
