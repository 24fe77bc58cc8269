"""The demo as a person runs it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.quick_spark import QUICK_JAVA, link_spark_home


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("moment", "least"),
    [(["Spark starts"], 0), (["  watermark ", "  watermark "], 16)],
    ids=["start", "replay"],
)
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path, moment: list[str], least: int) -> None:
    """At this speed a replay that did not wait for Spark would be over by then."""
    command = [
        sys.executable,
        "-m",
        "tidegauge_cli",
        "demo",
        "--days=1",
        "--speed=1000000",
        f"--output={tmp_path / 'out'}",
    ]
    quickly = {
        "JAVA_TOOL_OPTIONS": QUICK_JAVA,
        "SPARK_HOME": str(link_spark_home(tmp_path / "spark")),
    }
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env=os.environ | quickly | {"TMPDIR": str(tmp_path), "COLUMNS": "200"},
        start_new_session=True,
    ) as demo:
        try:
            children, rest = _interrupted(demo, moment, least)
            assert demo.wait(60) == 130
        finally:
            if demo.poll() is None:
                os.killpg(demo.pid, signal.SIGKILL)
    assert "nothing is left running" in rest
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
    assert list(tmp_path.glob("tidegauge-demo-*")) == []


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
