"""Spark for tests: sessions that live for a minute, and start more often than they compute."""

from pathlib import Path

import pyspark

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Compile once and lightly: code that runs for a minute never earns the second compilation."""

QUICK_SETTINGS = {
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    # Expressions are interpreted: each query runs a few times over a handful of rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Java renames the files of checkpoints itself; the default starts four processes for each.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}


def link_spark_home(folder: Path) -> Path:
    """Make a folder a ``SPARK_HOME`` without the archive of PySpark.

    Python processes of Spark import from that archive what they need, and compile it anew each
    time; without it they import the package that is installed.
    """
    (installed,) = map(Path, pyspark.__path__)
    folder.mkdir(exist_ok=True)
    for part in ("bin", "jars"):
        (folder / part).symlink_to(installed / part)
    return folder


def write_quick_defaults(spark_home: Path) -> None:
    """Make the quick settings those of every program that runs with this ``SPARK_HOME``."""
    (spark_home / "conf").mkdir()
    lines = [f"{name} {value}\n" for name, value in QUICK_SETTINGS.items()]
    (spark_home / "conf" / "spark-defaults.conf").write_text("".join(lines))
