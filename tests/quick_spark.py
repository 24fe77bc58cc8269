"""Spark for tests: processes that live for a minute, and start more often than they compute."""

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source.home import linked_home
from tests.spark.session import new_session

_ROOT = Path(__file__).parents[1]
_HOME = linked_home(Path(pyspark.__file__).resolve().parent)
_FOLDER = Path(sys.prefix) / f"quick-classes-{pyspark.__version__}"
_CLASSES = _FOLDER / "classes.jsa"
_DEFAULTS = _FOLDER / "quick.conf"
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Compile once and lightly: code that runs for a minute never earns the second compilation."""

_SETTINGS = {
    # Classes come parsed; a Java that cannot take them, another one say, parses them itself.
    "spark.driver.extraJavaOptions": f"{QUICK_JAVA} -XX:SharedArchiveFile={_CLASSES} -Xlog:disable",
    # Expressions are interpreted: each query runs a few times over a handful of rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Java renames the files of checkpoints itself; the default starts four processes for each.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}
_WRITTEN = f"# {_HOME}\n" + "".join(f"{name} {value}\n" for name, value in _SETTINGS.items())


def quick_environment() -> dict[str, str]:
    """Tell the variables of a process whose Spark is to be quick; the first to ask waits a minute.

    It is at home where `quick_start` lets it be, and Java has less to do than a user's.
    """
    _FOLDER.mkdir(exist_ok=True)
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _DEFAULTS.exists() or _DEFAULTS.read_text() != _WRITTEN:
            _make_classes()
    paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        "SPARK_HOME": str(_HOME),
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {_DEFAULTS} pyspark-shell",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def _make_classes() -> None:
    _CLASSES.unlink(missing_ok=True)
    # Its output ends with Java, which writes the archive when Python is gone.
    subprocess.run(
        [sys.executable, "-m", "tests.quick_spark"],
        cwd=_ROOT,
        env=os.environ | {"SPARK_HOME": str(_HOME), "PYSPARK_PYTHON": sys.executable},
        check=True,
        capture_output=True,
    )
    _DEFAULTS.write_text(_WRITTEN)


def _archive_classes() -> None:
    """Run a query, and have Java archive the classes that were loaded."""
    java = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={_CLASSES}"
    settings = {**_SETTINGS, "spark.driver.extraJavaOptions": java}
    spark = new_session(SparkSession.builder.master("local[2]"), settings)
    rows = spark.readStream.format("rate").load()
    passed = rows.mapInArrow(lambda batches: batches, rows.schema)
    counts = passed.withWatermark("timestamp", "1 second").groupBy(
        F.window("timestamp", "1 second")
    )
    query = counts.count().writeStream.format("noop").outputMode("append").start()
    while len(query.recentProgress) < 3:
        time.sleep(0.1)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    _archive_classes()
