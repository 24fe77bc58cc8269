"""Seeds of the whole service under virtual time; each is run in a process of its own.

Clocks are replaced before anything is imported, so no test runs a seed in its own process.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import Effort

_ROOT = Path(__file__).parents[2]


def simulate(*arguments: str, hashes: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    environment = os.environ | {"PYTHONHASHSEED": str(hashes)}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=_ROOT, env=environment
    )


def digest_of(line: str) -> str:
    _outcome, digest, *_ = line.split()
    return digest


@pytest.mark.parametrize("controllers", ["1", "3"])
def test_no_story_breaks_a_law_and_a_seed_repeats_exactly(
    controllers: str, effort: Effort
) -> None:
    count = effort.times("stories", short=6, long=900)
    ran = simulate("1000", "--count", str(count), "--controllers", controllers, "--shrink")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    last = str(999 + count)
    alone = simulate(last, "--controllers", controllers, hashes=1)  # in a fresh process
    assert digest_of(alone.stdout) == digest_of(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("controllers", ["1", "3"])
def test_no_long_run_breaks_a_law(controllers: str, effort: Effort) -> None:
    count = effort.times("long runs", short=1, long=100)
    arguments = ["--count", str(count), "--controllers", controllers, "--long", "--shrink"]
    ran = simulate("1000", *arguments)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.soak
def test_a_run_that_fails_is_told_with_the_fewest_faults() -> None:
    planted = ["--defect", "reader_confirms_too_early"]
    ran = simulate("1", "--count", "50", *planted, "--shrink")
    *_, failed, shrunk = [one for one in ran.stdout.splitlines() if one.startswith("FAILED")]
    assert "--only" in shrunk
    assert faults_of(shrunk) < faults_of(failed)
    line = shlex.split(shrunk.partition("tests.simulation ")[2].partition(": ")[0])
    again, *_ = simulate(*line).stdout.splitlines()
    assert digest_of(again) == digest_of(shrunk)


def faults_of(line: str) -> int:
    return int(line.partition(" transactions, ")[2].split()[0])
