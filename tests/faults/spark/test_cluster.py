"""Executors on other machines need ``[spark]`` alone, and the Python of the driver."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.linked import make_environment
from tests.quick_spark import quick_environment
from tests.spark.cluster import standalone
from tests.spark.drivers import PATIENCE_S
from tests.spark.feed import DAY, Feed
from tests.spark.targets import Target

pytestmark = [pytest.mark.soak, pytest.mark.timeout(PATIENCE_S)]


@pytest.fixture(scope="module")
def environments(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of two workers: this package with ``[spark]``, and nothing else."""
    folder = tmp_path_factory.mktemp("workers")
    return [
        make_environment(folder / name, frozenset({"spark"})).parent
        for name in ("first", "second")
    ]


def _run(master: str, feed: Feed, folder: Path, *, cores: int) -> dict[str, Any]:
    program = [sys.executable, "-m", "tests.spark.cluster_driver"]
    command = [*program, master, str(cores), feed.url]
    done = subprocess.run(
        [*command, feed.stream, str(folder / "checkpoints")],
        stdout=subprocess.PIPE,
        env=os.environ | quick_environment(),
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_source_sink_and_operators_run_where_executors_have_the_extra_alone(
    feed: Feed, environments: list[Path], tmp_path: Path
) -> None:
    feed.write(4_000, 4_999, key="a")
    feed.write(9_999, key="b")
    feed.seal()
    with Target(feed.url, f"{feed.stream}-counted") as counted:
        counted.create()
        with standalone(tmp_path, *environments) as master:
            told = _run(master, feed, tmp_path, cores=2)
        assert [one[1:] for one in counted.counts()] == [(5_000, 2), (10_000, 1)]
    assert told == {
        "processed": [["a", DAY + 4_015], ["a", DAY + 5_014], ["b", DAY + 10_014]],
        "windows": [["a", DAY + 5_000, 2], ["b", DAY + 10_000, 1]],
        "python": [[str(one), ""] for one in environments],
    }


def test_another_python_on_a_worker_is_refused_in_one_line(feed: Feed, tmp_path: Path) -> None:
    programs = make_environment(tmp_path / "newer", frozenset({"spark"}))
    newer = f"{sys.version_info.major}.{sys.version_info.minor + 1}"
    said = f"""
        import sys
        from collections import namedtuple

        names = "major minor micro releaselevel serial"
        pretended = {sys.version_info.major}, {sys.version_info.minor + 1}, 0, "final", 0
        sys.version_info = namedtuple("version_info", names)(*pretended)
    """
    (packages,) = programs.parent.glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(dedent(said))
    feed.write(4_000)
    feed.seal()
    with Target(feed.url, f"{feed.stream}-counted") as counted:
        counted.create()
        folder = tmp_path / "cluster"
        folder.mkdir()
        with standalone(folder, programs.parent) as master:
            told = _run(master, feed, tmp_path, cores=1)
    lines = [one for one in told["failed"].splitlines() if "PYTHON_VERSION_MISMATCH" in one]
    assert f"Python in worker has different version: {newer} than that in driver" in lines[0]
