"""The demo over Kafka as a person runs it, with a broker of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import psutil
import pytest
from confluent_kafka.admin import AdminClient

from tests.patience import wait_until
from tests.quick_spark import quick_environment
from tidegauge_cli.demo.kafka.broker import Broker


@pytest.mark.timeout(600)
def test_the_demo_over_kafka_loses_nothing_where_a_guess_loses_rows(tmp_path: Path) -> None:
    with _running_demo(tmp_path, stderr=subprocess.STDOUT) as demo:
        assert demo.stdout is not None
        said = demo.stdout.read()
        assert demo.wait(60) == 0, said
    assert "UA is killed, and started again" in said
    assert said.count("as the model of Spark's rule says, to the row") == 4
    assert not [line for line in said.splitlines() if "WARN" in line or "%" in line[:2]]
    compared = pd.read_csv(tmp_path / "out" / "comparison.csv")
    read, followed, after_1_h, after_3_h, _ = compared["dropped"].tolist()
    assert (read, followed) == (0, 0)
    assert after_1_h > after_3_h > 0
    assert compared["wrong"].tolist()[:2] == compared["counted"].tolist()[:2] == [0, 0]
    assert compared["never_closed"].tolist() == [0, 0, 0, 0, 0]
    assert len(pd.read_csv(tmp_path / "out" / "arrivals.csv")) == 690
    assert (tmp_path / "out" / "comparison.png").stat().st_size > 10_000
    assert list(tmp_path.glob("tidegauge-*")) == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("a Kafka broker starts", id="broker"),
        pytest.param("  watermark ", id="replay", marks=pytest.mark.soak),
        pytest.param("same rows in the same", id="again", marks=pytest.mark.soak),
    ],
)
def test_ctrl_c_leaves_no_process_behind(
    tmp_path_factory: pytest.TempPathFactory, moment: str
) -> None:
    folder = tmp_path_factory.mktemp("demo")  # addresses of sockets have to be short
    with _running_demo(folder, stderr=subprocess.STDOUT) as demo:
        assert demo.stdout is not None
        assert any(moment in line for line in demo.stdout)
        wait_until(lambda: any(one.name() == "java" for one in _children(demo.pid)))
        children = _children(demo.pid)
        os.killpg(demo.pid, signal.SIGINT)
        rest = demo.stdout.read()
        assert demo.wait(60) == 130
    assert rest.splitlines()[-2:] == ["Stopping…", "stopped; nothing is left running"]
    assert "Traceback" not in rest
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
    assert [one.name for one in folder.iterdir()] == ["out"]


@pytest.mark.timeout(180)
def test_ctrl_c_deletes_the_topics_at_brokers_that_live_on(
    tmp_path_factory: pytest.TempPathFactory, broker: Broker
) -> None:
    folder, brokers = tmp_path_factory.mktemp("demo"), broker.bootstrap
    with _running_demo(folder, TIDEGAUGE_DEMO_BOOTSTRAP=brokers) as demo:
        assert demo.stdout is not None
        assert any("Spark starts" in line for line in demo.stdout)
        assert len(_topics(broker)) == 1
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(60) == 130
    wait_until(lambda: _topics(broker) == [])


def _topics(broker: Broker) -> list[str]:
    known = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).topics
    return [one for one in known if one.startswith("tidegauge-demo-")]


def test_a_machine_without_maven_is_told_how_to_get_it(tmp_path: Path) -> None:
    with _running_demo(tmp_path, XDG_CACHE_HOME=str(tmp_path), PATH="/nowhere") as demo:
        assert demo.stdout is not None
        said = demo.stdout.read()
        assert demo.wait(60) == 1
    assert "Maven is missing" in said
    assert "apt-get install maven" in said


def _children(pid: int) -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    return found


@contextmanager
def _running_demo(
    folder: Path, *, stderr: int = subprocess.DEVNULL, **environment: str
) -> Iterator["subprocess.Popen[str]"]:
    command = [
        sys.executable,
        "-m",
        "tidegauge_cli",
        "demo",
        "kafka",
        "--days=1",
        "--batches=12",
        "--speed=1000000",
        f"--output={folder / 'out'}",
    ]
    its_own = {"TMPDIR": str(folder), "COLUMNS": "200", **environment}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd=folder,
        env=os.environ | quick_environment() | its_own,
        start_new_session=True,
    ) as demo:
        try:
            yield demo
        finally:
            if demo.poll() is None:
                os.killpg(demo.pid, signal.SIGKILL)
