"""How the demo ends when somebody presses Ctrl-C, at moments that need no Spark."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE_S

_DEAF = """
import subprocess, sys
from functools import partial
from tidegauge_cli.demo.supervision import supervise

deaf = "trap '' TERM INT HUP; touch $TMPDIR/mine; echo up; while :; do sleep 1000; done"
sys.exit(supervise(partial(subprocess.call, ["sh", "-c", deaf]), stopped="over"))
"""
_PRESSING = """
import os, signal, sys

class Pressing:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.killpg(os.getpgid(os.getppid()), signal.SIGINT)

sys.meta_path.insert(0, Pressing())
"""


@contextmanager
def _running(folder: Path, *words: str, **more: str) -> Iterator["subprocess.Popen[str]"]:
    """Run Python with temporary files in a folder, in a session of its own as a terminal has it."""
    with subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(folder)} | more,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_work_that_hears_no_signal_is_gone_when_its_supervisor_is_told_to_end(
    tmp_path: Path, how: signal.Signals
) -> None:
    with _running(tmp_path, "-c", _DEAF) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == "up\n"
        started = psutil.Process(supervisor.pid).children(recursive=True)
        os.killpg(supervisor.pid, how)
        said, complained = supervisor.communicate(timeout=PATIENCE_S)
    assert (supervisor.returncode, said, complained) == (130, "Stopping…\nover\n", "")
    _, alive = psutil.wait_procs(started, timeout=PATIENCE_S)
    assert (len(started) > 2, alive) == (True, [])
    assert list(tmp_path.iterdir()) == []


def test_work_ends_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with _running(tmp_path, "-c", _DEAF) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == "up\n"
        started = psutil.Process(supervisor.pid).children(recursive=True)
        supervisor.kill()
        _, alive = psutil.wait_procs(started, timeout=PATIENCE_S)
    assert alive == []


def test_the_status_of_work_that_ends_by_itself_is_handed_on(tmp_path: Path) -> None:
    ends = _DEAF.replace("while :; do sleep 1000; done", "exit 3")
    with _running(tmp_path, "-c", ends) as supervisor:
        assert supervisor.communicate(timeout=PATIENCE_S) == ("up\n", "")
    assert (supervisor.returncode, list(tmp_path.iterdir())) == (3, [])


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["demo"], "tidegauge_cli.demo.waiting"),
        (["demo"], "pyspark"),
        (["demo", "kafka"], "pandas"),
        (["demo", "pipeline"], "pandas"),
    ],
)
def test_ctrl_c_ends_the_demo_while_it_loads_what_it_needs(
    tmp_path: Path, words: list[str], module: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_PRESSING.format(module=module))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = ["-m", "tidegauge_cli", *words, f"--output={temporary / 'out'}"]
    with _running(temporary, *command, PYTHONPATH=str(tmp_path)) as demo:
        said, complained = demo.communicate(timeout=PATIENCE_S)
    assert (demo.returncode, complained) == (130, "")
    assert said.splitlines()[-2] == "Stopping…"
    assert list(temporary.iterdir()) == []
