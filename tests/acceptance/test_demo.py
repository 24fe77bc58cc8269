"""The demo as a person runs it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import psutil
import pytest

from tests.quick_spark import quick_environment


@pytest.mark.timeout(600)
def test_the_demo_says_what_it_does_loses_nothing_and_shows_nothing_of_sparks_log(
    tmp_path: Path,
) -> None:
    with _running_demo(tmp_path, stderr=subprocess.STDOUT) as demo:
        assert demo.stdout is not None
        said = demo.stdout.read()
        assert demo.wait(60) == 0
    first, *rest = said.splitlines()
    assert first.startswith("Flights of 2013 are replayed through Tidegauge")
    assert not [line for line in rest if "WARN" in line or "log level" in line]
    assert said.count("as the model of Spark's rule says, to the row") == 4
    compared = pd.read_csv(tmp_path / "out" / "comparison.csv")
    assert compared["never_closed"].tolist() == [0, 0, 0, 0, 0]
    ours, after_1_h, after_3_h, *_ = compared["dropped"].tolist()
    assert (ours, compared["wrong"].tolist()[0]) == (0, 0)
    assert after_1_h > after_3_h > 0
    batches = pd.read_csv(tmp_path / "out" / "batches.csv")
    assert len(batches) <= 90
    assert batches["rows"].sum() == len(pd.read_csv(tmp_path / "out" / "arrivals.csv")) == 690
    assert (tmp_path / "out" / "comparison.png").stat().st_size > 10_000


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("moment", "least"),
    [
        # Java is there then; while carriers register, those that run import pandas.
        pytest.param(["Spark starts"], 2, id="start", marks=pytest.mark.soak),
        pytest.param(["carriers register"], 16, id="carriers"),
        pytest.param(["  watermark ", "  watermark "], 16, id="replay", marks=pytest.mark.soak),
    ],
)
def test_ctrl_c_leaves_no_process_behind(
    tmp_path_factory: pytest.TempPathFactory, moment: list[str], least: int
) -> None:
    """At this speed a replay that did not wait for Spark would be over by then."""
    folder = tmp_path_factory.mktemp("demo")  # addresses of sockets have to be short
    with _running_demo(folder, stderr=subprocess.STDOUT) as demo:
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
    tmp_path: Path,
) -> None:
    with _running_demo(tmp_path) as demo:
        assert demo.stdout is not None
        assert any("  watermark " in line for line in demo.stdout)
        children = _children(demo.pid, at_least=16)
        for jvm in (child for child in children if child.name() == "java"):
            jvm.kill()
        *_, said_last = demo.stdout
        assert demo.wait(60) == 1
    assert said_last.startswith("Spark ended before the demo did: ")
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []


@contextmanager
def _running_demo(
    folder: Path, *, stderr: int = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[str]"]:
    command = [
        sys.executable,
        "-m",
        "tidegauge_cli",
        "demo",
        "--days=1",
        "--speed=1000000",
        f"--output={folder / 'out'}",
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd=folder,
        env=os.environ | quick_environment() | {"TMPDIR": str(folder), "COLUMNS": "200"},
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
    children = _children(demo.pid, at_least=least)
    os.killpg(demo.pid, signal.SIGINT)
    return children, demo.stdout.read()


def _children(pid: int, *, at_least: int) -> list[psutil.Process]:
    """Wait for a process to have a child of some kind, Spark's JVM at first."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
        if len(children) > at_least:
            return children
        time.sleep(0.01)
    pytest.fail("nothing was started")
