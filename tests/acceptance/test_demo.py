"""The flights as a person runs them, over the service's log and over Kafka, and the guide's night."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from typer.testing import CliRunner

from examples.flights.data import of_first_days, read_flights, truth
from examples.flights.report import write_results
from examples.flights.windows import ClosedWindows, close_windows, guess, judge
from examples.late_night import play
from tests.broker import Broker
from tests.kafka_jars import connector_jars
from tests.quick_spark import quick_environment
from tests.server import ServerProcess
from tidegauge.event_time import END_OF_TIME
from tidegauge_cli.verbs import app

_PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "demo.md"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder with a short path: addresses of sockets in it have 107 bytes at most."""
    with TemporaryDirectory(prefix="demo") as made:
        yield Path(made)


def test_the_demo_loses_nothing_where_a_guess_loses_rows(folder: Path) -> None:
    compared = _run(folder)
    assert compared["never_closed"].tolist() == [0, 0, 0, 0, 0]
    ours, after_1_h, after_3_h, *_ = compared["dropped"].tolist()
    assert (ours, compared["wrong"].tolist()[0]) == (0, 0)
    assert after_1_h > after_3_h > 0


def test_the_demo_over_kafka_loses_nothing_where_a_guess_loses_rows(
    folder: Path, broker: Broker
) -> None:
    jars = connector_jars()[0].parent
    places = {"KAFKA_BOOTSTRAP": broker.bootstrap, "KAFKA_JARS": str(jars)}
    compared = _run(folder, "kafka", **places)
    assert compared["never_closed"].tolist() == [0, 0, 0, 0, 0]
    read, followed, after_1_h, after_3_h, _ = compared["dropped"].tolist()
    assert (read, followed) == (0, 0)
    assert compared["wrong"].tolist()[:2] == [0, 0]
    assert after_1_h > after_3_h > 0


def test_the_night_of_the_guide_is_told_in_the_morning(server: ServerProcess) -> None:
    stood = play(server.url, "fleet/positions", 12.0)
    told = ["why", "fleet/positions", "--at", f"{stood + 1}", "--url", server.url]
    said = CliRunner().invoke(app, told).output
    assert re.search(r"\ngateway-7( and 1 more)? held it for 1\ds .*: noted a later time", said)


def test_the_pandas_of_the_page_compute_the_files_of_the_demo_and_the_figures_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_a_run(tmp_path / "tidegauge-demo")
    capsys.readouterr()
    page = _PAGE.read_text()
    monkeypatch.chdir(tmp_path)
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {})
    written, january = capsys.readouterr().out.split("1 a batch", 1)
    assert written.splitlines() == [
        "tidegauge 0 8.7 11.7",
        "1 h 188 2.9 3.5",
        "3 h 69 4.8 5.1",
        "6 h 1 7.8 8.1",
        "12 h 0 14.0 14.0",
    ]
    compared = pd.read_csv("tidegauge-demo/comparison.csv").round(1)
    assert compared["dropped"].tolist() == [0, 188]
    assert compared["mean_wait_h"].tolist() == [8.7, 2.9]
    (shown,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert f"1 a batch{january}" == shown


def _run(folder: Path, *form: str, **environment: str) -> pd.DataFrame:
    """Run the demo, check what it prints and what it leaves, and read its results."""
    results = folder / "out"
    command = [sys.executable, "-m", "examples.flights", *form, "--days=1", "--batches=12"]
    its_own = {"TMPDIR": str(folder), "COLUMNS": "200", **environment}
    done = subprocess.run(
        [*command, f"--output={results}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=folder,
        env=os.environ | quick_environment() | its_own,
    )
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert [line for line in lines if "WARN" in line or line.startswith("%")] == []
    assert "as the model of Spark's rule says, to the row" in done.stdout
    assert [left.name for left in folder.iterdir()] == ["out"]
    assert len(pd.read_csv(results / "arrivals.csv")) == 690
    assert pd.read_csv(results / "batches.csv")["rows"].sum() == 690
    assert (results / "comparison.png").stat().st_size > 10_000
    return pd.read_csv(results / "comparison.csv")


def _write_a_run(folder: Path) -> None:
    """Write what a run of a day would, if all carriers noted at once what they know."""
    folder.mkdir()
    flights = of_first_days(read_flights(), 1)
    arrivals = flights.assign(batch=flights.index // 20)
    last = int(arrivals["batch"].max()) + 1
    clock = arrivals.groupby("batch")["landed"].max().reindex(range(last + 1)).ffill()
    oldest = arrivals.groupby("batch")["departed"].min()[::-1].cummin()[::-1].shift(-1)
    noted = oldest.clip(upper=clock).fillna(clock).reindex(clock.index, fill_value=END_OF_TIME)
    batches = pd.DataFrame({"clock": clock, "watermark": noted}).astype("int64")
    means = truth(flights)
    verdicts = []
    for watermark in (batches["watermark"], guess(arrivals, len(batches), 1)):
        windows = close_windows(arrivals, watermark)
        closed = ClosedWindows("tidegauge", windows.assign(mean_delay=0.0), 0)
        verdicts.append(judge(closed, batches["clock"], means))
    write_results(folder, verdicts, arrivals, batches.rename_axis("batch"), means)
