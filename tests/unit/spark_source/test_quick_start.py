"""Where Spark is at home after `quick_start`; no Spark runs."""

import logging
import os
import sys
from pathlib import Path

import pyspark
import pytest

from spark_source import quick_start

INSTALLED = Path(pyspark.__file__).resolve().parent
PYTHON, HOME = "PYSPARK_PYTHON", "SPARK_HOME"


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in (PYTHON, HOME, "PYSPARK_GATEWAY_PORT", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.setenv(name, "")  # so that what is set is undone
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_the_home_has_links_to_all_but_the_archives_and_is_made_once(cache: Path) -> None:
    for _ in range(2):
        quick_start()
        home = Path(os.environ.pop(HOME))
        assert home.is_relative_to(cache)
        assert {link.name: link.readlink() for link in home.iterdir()} == {
            part: INSTALLED / part for part in ("bin", "conf", "jars", "sbin")
        }
    assert os.environ[PYTHON] == sys.executable


def test_a_program_that_spark_submit_started_stays_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    quick_start()
    assert os.environ.keys() & {PYTHON, HOME} == set()


@pytest.mark.parametrize("name", [PYTHON, HOME, "HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_a_home_and_a_python_of_the_user_stay(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "theirs")
    quick_start()
    assert {PYTHON: sys.executable, name: "theirs"} == {
        known: os.environ[known] for known in (PYTHON, HOME, name) if known in os.environ
    }


def test_what_it_set_in_a_parent_process_of_another_environment_is_set_anew(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setenv(PYTHON, "/another/bin/python")
    monkeypatch.setenv(HOME, str(cache / "tidegauge/spark-home/another/pyspark"))
    quick_start()
    assert os.environ[PYTHON] == sys.executable
    assert os.environ[HOME] == str(cache.joinpath("tidegauge/spark-home", *INSTALLED.parts[1:]))


def test_a_pyspark_without_archives_needs_no_other_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pyspark, "__path__", [str(tmp_path)])
    quick_start()
    assert HOME not in os.environ


def test_a_cache_that_cannot_be_written_is_said_and_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        quick_start()
    assert HOME not in os.environ
    assert "set XDG_CACHE_HOME to a folder that this user can write to" in caplog.text
