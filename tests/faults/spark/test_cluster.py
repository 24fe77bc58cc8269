"""Executors on other machines need ``[spark]`` alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
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


def _run(master: str, feed: Feed, folder: Path) -> dict[str, Any]:
    program = [sys.executable, "-m", "tests.spark.cluster_driver"]
    command = [*program, master, feed.url]
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
            told = _run(master, feed, tmp_path)
        assert [one[1:] for one in counted.counts()] == [(5_000, 2), (10_000, 1)]
    assert told == {
        "processed": [["a", DAY + 4_015], ["a", DAY + 5_014], ["b", DAY + 10_014]],
        "windows": [["a", DAY + 5_000, 2], ["b", DAY + 10_000, 1]],
        "python": [[str(one), ""] for one in environments],
    }
