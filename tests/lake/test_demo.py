"""The flights of examples/flights through Delta tables, and the model of Spark's rule against Spark."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from examples.flights.data import of_first_days, read_flights
from examples.flights.lake.chain import guessed_chain
from examples.flights.lake.jobs import Lake, add_hours, count_flights, read_table
from examples.flights.lake.versions import read_versions
from examples.flights.windows import ClosedWindows, check_rule
from tests.server import ServerProcess
from tests.spark.pages import TUTORIALS, Reader
from tidegauge.tables.delta import DeltaLog

pytestmark = pytest.mark.usefixtures("delta")
_FLIGHTS_A_FILE = 150


@pytest.mark.timeout(900)
def test_the_demo_is_right_at_every_version_though_silver_is_killed() -> None:
    command = [sys.executable, "-m", "examples.flights", "lake", "--days=1", "--batches=12"]
    # A short path: addresses of sockets in it have 107 bytes at most.
    with TemporaryDirectory(prefix="demo") as folder:
        done = subprocess.run(
            [*command, f"--output={folder}/out"],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"TMPDIR": folder},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert [left.name for left in Path(folder).iterdir()] == ["out"]
        compared = pd.read_csv(f"{folder}/out/comparison.csv")
    assert "silver was killed with kill -9" in done.stdout
    assert done.stdout.count("complete_until is right at each of") == 3
    ours, after_1_h, after_3_h, *_ = compared["lost"].tolist()
    assert (ours, compared["wrong_days"][0], compared["open_days"][0]) == (0, 0, 0)
    assert after_1_h > after_3_h > 0


def test_the_model_of_the_chain_closes_what_spark_closes(
    lake_spark: SparkSession, tmp_path: Path
) -> None:
    lake, flights = Lake(tmp_path, url=""), of_first_days(read_flights(), 2)
    columns = flights[["origin", "delay", "departed", "landed"]]
    for at in range(0, len(columns), _FLIGHTS_A_FILE):
        part = lake_spark.createDataFrame(columns[at : at + _FLIGHTS_A_FILE]).coalesce(1)
        rows = part.withColumn("departed", F.timestamp_millis("departed"))
        rows.write.format("delta").mode("append").save(lake.table("bronze"))
    bronze = read_versions(tmp_path / "bronze", "departed")
    arrivals = bronze.rows.rename(columns={"file": "batch"}).drop(columns="departures")
    model = guessed_chain(arrivals, bronze.files, delay_h=1)
    assert model.lost > 0
    assert len(model.days) > 0

    hourly = read_table(lake_spark, lake.table("bronze")).withWatermark("departed", "1 hour")
    _write(count_flights(hourly, "departed"), lake, "silver")
    _check(tmp_path / "silver", "hour", model.hours)
    daily = read_table(lake_spark, lake.table("silver")).withWatermark("hour", "1 hour")
    _write(add_hours(daily, "hour"), lake, "gold")
    _check(tmp_path / "gold", "day", model.days)


def _write(rows: DataFrame, lake: Lake, table: str) -> None:
    writer = rows.writeStream.format("delta").outputMode("append")
    writer = writer.option("checkpointLocation", lake.checkpoint(table))
    writer.trigger(availableNow=True).start(lake.table(table)).awaitTermination()


def _check(table: Path, time: str, model: pd.DataFrame) -> None:
    written = read_versions(table, time)
    batch = written.rows["version"].map(written.batches)
    windows = written.rows.rename(columns={time: "start"}).assign(batch=batch)
    check_rule(ClosedWindows(table.name, windows, never_closed=0), model)


@pytest.mark.soak  # twenty seconds of Spark
def test_the_tutorial_ends_with_a_day_that_is_complete(
    lake_spark: SparkSession,
    shared_server: ServerProcess,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reader = Reader(shared_server.url, lake_spark, "tutorial")
    text = (TUTORIALS / "lakehouse.md").read_text()
    reader.follow(text.replace("/tmp/lake", str(tmp_path)))
    for query in lake_spark.streams.active:
        query.stop()
    printed = capsys.readouterr().out
    assert printed
    assert f"```text\n{printed}```" in text
    noted = DeltaLog(str(tmp_path / "bronze")).newest_first()
    assert not any(one.note.late for one in noted if one.note is not None)
