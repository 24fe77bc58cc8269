"""Both forms of the demo as a person runs them: over the service's log, and over Kafka."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import psutil
import pytest
from confluent_kafka.admin import AdminClient

from tests.patience import wait_until
from tests.quick_spark import quick_environment
from tidegauge_cli.demo.kafka.broker import Broker


@pytest.fixture
def folder() -> Iterator[Path]:
    """Make a folder with a short path: addresses of sockets in it have 107 bytes at most."""
    with TemporaryDirectory(prefix="demo") as made:
        yield Path(made)


def test_the_demo_says_what_it_does_loses_nothing_and_shows_nothing_of_sparks_log(
    folder: Path,
) -> None:
    compared = _told_and_compared(folder)
    assert compared["never_closed"].tolist() == [0, 0, 0, 0, 0]
    ours, after_1_h, after_3_h, *_ = compared["dropped"].tolist()
    assert (ours, compared["wrong"].tolist()[0]) == (0, 0)
    assert after_1_h > after_3_h > 0
    batches = pd.read_csv(folder / "out" / "batches.csv")
    assert batches["rows"].sum() == 690


def test_the_demo_over_kafka_loses_nothing_where_a_guess_loses_rows(folder: Path) -> None:
    compared = _told_and_compared(folder, "kafka", told="UA is killed, and started again")
    assert compared["never_closed"].tolist() == [0, 0, 0, 0, 0]
    read, followed, after_1_h, after_3_h, _ = compared["dropped"].tolist()
    assert (read, followed) == (0, 0)
    assert compared["wrong"].tolist()[:2] == compared["counted"].tolist()[:2] == [0, 0]
    assert after_1_h > after_3_h > 0


def _told_and_compared(
    folder: Path, *form: str, told: str = "Flights of 2013 are replayed through Tidegauge"
) -> pd.DataFrame:
    """Run the demo, check what it says and what it leaves, and read what it found."""
    with _running_demo(folder, *form, stderr=subprocess.STDOUT) as demo:
        assert demo.stdout is not None
        said = demo.stdout.read()
        assert demo.wait(60) == 0, said
    assert told in said
    unclean = [one for one in said.splitlines() if "WARN" in one or "log level" in one]
    assert [*unclean, *(one for one in said.splitlines() if "%" in one[:2])] == []
    assert said.count("as the model of Spark's rule says, to the row") == 4
    results = folder / "out"
    assert [one.name for one in folder.iterdir()] == ["out"]
    assert len(pd.read_csv(results / "arrivals.csv")) == 690
    assert (results / "comparison.png").stat().st_size > 10_000
    return pd.read_csv(results / "comparison.csv")


@pytest.mark.soak  # `make test` presses Ctrl-C at the moments of test_demo_ending
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("form", "moment", "least"),
    [
        # Java is there then; while carriers register, those that run import pandas.
        pytest.param([], ["Spark starts"], 2, id="start"),
        pytest.param([], ["carriers register"], 16, id="carriers"),
        pytest.param([], ["  watermark ", "  watermark "], 16, id="replay"),
        pytest.param(["kafka"], ["a Kafka broker starts"], 0, id="broker"),
        pytest.param(["kafka"], ["  watermark "], 16, id="replay over Kafka"),
        pytest.param(["kafka"], ["same rows in the same"], 0, id="again"),
    ],
)
def test_ctrl_c_leaves_no_process_behind(
    folder: Path, form: list[str], moment: list[str], least: int
) -> None:
    """At this speed a replay that did not wait for Spark would be over by then."""
    with _running_demo(folder, *form, stderr=subprocess.STDOUT) as demo:
        children, rest = _interrupted(demo, moment, least)
        assert demo.wait(60) == 130
    *_, stopping, stopped = rest.splitlines()
    assert (stopping, stopped) == ("Stopping…", "stopped; nothing is left running")
    assert "Traceback" not in rest
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
    assert [one.name for one in folder.iterdir()] == ["out"]


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_a_demo_that_loses_spark_says_so_in_a_sentence_and_leaves_no_process_behind(
    folder: Path,
) -> None:
    with _running_demo(folder) as demo:
        assert demo.stdout is not None
        assert any("  watermark " in line for line in demo.stdout)
        children = _children(demo.pid, more_than=16)
        for jvm in (child for child in children if child.name() == "java"):
            jvm.kill()
        *_, said_last = demo.stdout
        assert demo.wait(60) == 1
    assert said_last.startswith("Spark ended before the demo did: ")
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_ctrl_c_deletes_the_topics_at_brokers_that_live_on(
    folder: Path, broker: Broker
) -> None:
    brokers = broker.bootstrap
    with _running_demo(folder, "kafka", TIDEGAUGE_DEMO_BOOTSTRAP=brokers) as demo:
        assert demo.stdout is not None
        assert any("Spark starts" in line for line in demo.stdout)
        assert len(_topics(broker)) == 1
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(60) == 130
    wait_until(lambda: _topics(broker) == [])


def _topics(broker: Broker) -> list[str]:
    known = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=60).topics
    return [one for one in known if one.startswith("tidegauge-demo-")]


def test_a_machine_without_maven_is_told_how_to_get_it(folder: Path) -> None:
    away = str(folder)
    with _running_demo(folder, "kafka", XDG_CACHE_HOME=away, PATH="/nowhere") as demo:
        assert demo.stdout is not None
        said = demo.stdout.read()
        assert demo.wait(60) == 1
    assert "Maven is missing" in said
    assert "apt-get install maven" in said


@contextmanager
def _running_demo(
    folder: Path, *form: str, stderr: int = subprocess.DEVNULL, **environment: str
) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "tidegauge_cli", "demo", *form, "--days=1", "--batches=12"]
    its_own = {"TMPDIR": str(folder), "COLUMNS": "200", **environment}
    with subprocess.Popen(
        [*command, "--speed=1000000", f"--output={folder / 'out'}"],
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


def _interrupted(
    demo: subprocess.Popen[str], moment: list[str], least: int
) -> tuple[list[psutil.Process], str]:
    """Interrupt it as a terminal does; return its children, and what it says to that."""
    assert demo.stdout is not None
    for awaited in moment:
        assert any(awaited in line for line in demo.stdout)
    children = _children(demo.pid, more_than=least)
    os.killpg(demo.pid, signal.SIGINT)
    return children, demo.stdout.read()


def _children(pid: int, *, more_than: int) -> list[psutil.Process]:
    """Wait for a process to have so many children, a JVM among them."""
    children = list[psutil.Process]()

    def are_there() -> bool:
        children[:] = psutil.Process(pid).children(recursive=True)
        return len(children) > more_than and any(one.name() == "java" for one in children)

    wait_until(are_there)
    return children
