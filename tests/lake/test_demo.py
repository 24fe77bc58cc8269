"""The demo of tables: its three jobs over two days, one started again, and its model of Spark's rule."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.carriers import REPLAYED, oldest_unreported
from examples.flights.data import of_first_days, read_flights
from examples.flights.lake.chain import guessed_chain
from examples.flights.lake.guessed import run_guessed
from examples.flights.lake.jobs import JOBS, STREAM, TIMES, Lake
from examples.flights.lake.verdicts import Truth, clocks_of, judge_chain
from examples.flights.lake.versions import check_versions, read_versions
from reader_client import StreamClient
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.spark.test_first_steps import TUTORIALS, Reader
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import complete_until
from tidegauge.tables.delta import DeltaLog
from writer_client import Writer

pytestmark = pytest.mark.usefixtures("delta")
_PARTS = 6


def _has(table: str, rows: int) -> bool:
    return DeltaTable(table).count() == rows


def _is_complete(table: str) -> bool:
    return complete_until(table) == END_OF_TIME


def test_the_jobs_of_the_demo_are_right_at_every_version_and_the_model_equals_spark(
    lake_spark: SparkSession, shared_server: ServerProcess, tmp_path: Path
) -> None:
    flights = of_first_days(read_flights()[0], 2)
    lake, running = Lake(tmp_path, shared_server.url), dict[str, StreamingQuery]()
    columns = flights[["origin", "delay", "departed", "landed"]]
    rows = list(columns.itertuples(index=False, name=None))
    oldest = oldest_unreported(rows)
    with StreamClient(lake.url, STREAM) as client:
        client.create(segments=1, **REPLAYED)
        with Writer(lake.url, STREAM, "all") as writer:
            running["bronze"] = JOBS["bronze"](lake_spark, lake)
            for part in range(_PARTS):
                begin, end = (len(rows) * one // _PARTS for one in (part, part + 1))
                for origin, delay, departed, landed in rows[begin:end]:
                    value = f'{{"origin": "{origin}", "delay": {delay}, "landed": {landed}}}'
                    writer.write(value.encode(), key=origin, event_time=departed)
                if end < len(rows):
                    writer.note_time(oldest[end])
                writer.flush()
                # Its time comes with the next part: a commit without rows may wait a minute.
                wait_until(partial(_has, lake.table("bronze"), end))
                if part == 0:
                    running["silver"] = JOBS["silver"](lake_spark, lake)
                if part == _PARTS // 2:
                    running["silver"].stop()
                    running["silver"] = JOBS["silver"](lake_spark, lake)
                    running["gold"] = JOBS["gold"](lake_spark, lake)
        client.seal()
    wait_until(lambda: all(_is_complete(lake.table(name)) for name in JOBS))
    for query in running.values():
        query.stop()
    truth = Truth(flights)
    tables = {name: read_versions(tmp_path / name, time) for name, time in TIMES.items()}
    for name, table in tables.items():
        check_versions(table, truth.of(name), TIMES[name])
    read = {
        name: tables[name].versions_read(lake.checkpoint(name)) for name in ("silver", "gold")
    }
    verdict = judge_chain("tidegauge", *clocks_of(tables, read), truth)
    assert (verdict.lost, verdict.wrong_days, verdict.open_days) == (0, 0, 0)
    bronze = tables["bronze"]
    model = guessed_chain(bronze.arrivals(), bronze.files, 1)
    assert model.lost > 0
    assert len(model.days) > 0
    run_guessed(lake_spark, lake, 1, model)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_demo_kills_silver_and_says_that_all_was_right(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.flights", "lake", "--days=2"]
    done = subprocess.run(
        [*command, "--batches=20", f"--output={tmp_path / 'out'}"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "silver was killed with kill -9 in batch" in done.stdout
    assert done.stdout.count("complete_until is right at each of") == 3
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    compared = pd.read_csv(tmp_path / "out" / "comparison.csv")
    assert compared["lost"].tolist()[0] == 0
    assert compared["lost"].tolist()[1] > compared["lost"].tolist()[2] > 0


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
