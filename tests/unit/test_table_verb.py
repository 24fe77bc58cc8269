"""What `tidegauge table` says of a Delta table, and how it ends."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from typer.testing import CliRunner

from tidegauge.tables import note
from tidegauge_cli.verbs import app


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table of three commits, the second of which says nothing of time."""
    path = str(tmp_path / "hourly")
    for until in (1_000, None, 2_000):
        noted = CommitProperties(
            custom_metadata={} if until is None else note(until, job="nightly")
        )
        rows = pa.table({"time": [until or 0]})
        write_deltalake(path, rows, mode="append", commit_properties=noted)
    return path


def _run(*words: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["table", *words])
    return ran.exit_code, ran.output


def test_it_shows_until_when_since_which_version_and_by_whom(table: str) -> None:
    status, shown = _run(table)
    assert (status, "complete until 2000" in shown) == (0, True)
    assert "version  2," in shown
    assert "nightly" in shown


@pytest.mark.parametrize(("time", "version"), [("1001", 2), ("2000", 2), ("1000", 0)])
def test_it_finds_the_first_version_that_is_complete(
    table: str, time: str, version: int
) -> None:
    status, shown = _run(table, "--wait", time, "--json")
    assert (status, json.loads(shown)["version"]) == (0, version)


def test_it_gives_up_waiting_with_status_1(table: str) -> None:
    status, shown = _run(table, "--wait", "2001", "--timeout", "1ms")
    assert status == 1
    assert "is not complete until 2001: it is complete until 2000" in shown


def test_a_table_that_is_not_there_and_a_property_without_a_value_are_refused(
    tmp_path: Path,
) -> None:
    assert _run(str(tmp_path / "none"))[0] == 1
    status, shown = _run("x", "--catalog", "lake")
    assert (status, "is not NAME=VALUE" in shown) == (2, True)
