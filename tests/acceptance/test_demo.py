"""The demo as a person runs it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest


@pytest.mark.timeout(180)
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tidegauge_cli",
        "demo",
        "--days=3",
        f"--output={tmp_path / 'out'}",
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path), "COLUMNS": "200"},
    ) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "  watermark " in line:
                break
        children = psutil.Process(demo.pid).children(recursive=True)
        assert len(children) > 15
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
        assert demo.wait(60) == 130
    assert "nothing is left running" in rest
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
    assert list(tmp_path.glob("tidegauge-demo-*")) == []
