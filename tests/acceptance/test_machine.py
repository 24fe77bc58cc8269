"""`make` tells what a machine lacks, and how to get it, and uses the Python that it is given."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "check_machine.sh"


def _missing(**environment: str) -> tuple[str, str]:
    """What the machine is said to lack, and how to get it."""
    checked = subprocess.run(
        ["/bin/sh", str(SCRIPT)],
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 1
    lacking, _, way = checked.stderr.partition("\n")
    return lacking, way.strip()


def _program(path: Path, script: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_202"])
def test_an_old_java_is_explained(version: str, tmp_path: Path) -> None:
    _program(tmp_path / "bin" / "java", f"echo 'openjdk version \"{version}\" 2019-01-15' >&2")
    assert _missing(JAVA_HOME=str(tmp_path)) == (
        f"Tidegauge needs Java 17 or newer for Spark, not {version}.",
        "Get it with: apt-get install default-jre-headless, then unset JAVA_HOME",
    )


def test_an_old_python_is_explained(tmp_path: Path) -> None:
    old = _program(tmp_path / "python3", '[ "$1" = -V ] && echo Python 3.10.13')
    assert _missing(PYTHON=old) == (
        "Tidegauge needs Python 3.11 or newer, not Python 3.10.13.",
        "Get it with: apt-get install python3.11-venv or a later one, then make PYTHON=python3.11",
    )


def test_what_is_missing_is_explained(tmp_path: Path) -> None:
    assert _missing(PATH=str(tmp_path)) == (
        "Tidegauge needs Java 17 or newer for Spark; there is no 'java'.",
        "Get it with: apt-get install default-jre-headless",
    )
    assert _missing(PYTHON="python0") == (
        "Tidegauge needs Python 3.11 or newer; there is no 'python0'.",
        "Get it with: apt-get install python3 python3-venv",
    )
    (tmp_path / "ensurepip.py").write_text("raise ImportError")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert _missing(PYTHONPATH=str(tmp_path)) == (
        f"Tidegauge needs the modules venv and ensurepip of '{sys.executable}'.",
        f"Get it with: apt-get install python{version}-venv",
    )


def _steps(venv: Path, *variables: str) -> str:
    """Tell what `make setup` would do about an environment that is there."""
    return subprocess.run(
        ["make", "--dry-run", "--silent", "setup", f"VENV={venv}", *variables],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_another_python_makes_the_environment_anew(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    _program(venv / "bin" / "python", "echo 3.11.2")
    (venv / ".ready").touch()
    same = _program(tmp_path / "same", "echo 3.11.2")
    other = _program(tmp_path / "other", "echo 3.13.5")
    assert _steps(venv) == ""
    assert _steps(venv, f"PYTHON={same}") == ""
    assert f"{other} -m venv --clear {venv}\n" in _steps(venv, f"PYTHON={other}")
    assert 'PYTHON="python0" sh scripts/check_machine.sh\n' in _steps(venv, "PYTHON=python0")
