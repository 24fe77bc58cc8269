"""What `tidegauge table` says of a Delta table, and how it ends."""

import json
import re
import sys
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


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("none", "does not exist .*; correct the path, or for an Iceberg table give catalog="),
        ("", "correct the path"),
        ("http://127.0.0.1/hourly", "give its address in the object store, such as s3://"),
        ("ftp://127.0.0.1/hourly", "correct the address, or give storage_options="),
    ],
)
def test_an_address_without_a_table_is_told_in_one_line_with_the_cure(
    tmp_path: Path, address: str, told: str
) -> None:
    status, shown = _run(address if "://" in address else str(tmp_path / address))
    assert (status, shown.count("\n")) == (1, 1)
    assert re.search(told, shown)


def test_a_table_without_notes_says_what_writes_them(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"time": [1]}))
    status, shown = _run(str(tmp_path))
    assert (status, "says nothing of its time: no commit" in shown) == (0, True)
    assert "append_to_table()" in shown


def test_a_missing_extra_is_named(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tidegauge.tables.delta")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    status, shown = _run(table)
    assert (status, shown.count("\n")) == (1, 1)
    assert "tidegauge table needs deltalake; run pip install '.[tables]'" in shown


def test_options_that_cannot_be_are_refused(table: str) -> None:
    status, shown = _run("x", "--catalog", "lake")
    assert (status, "is not NAME=VALUE" in shown) == (2, True)
    status, shown = _run(table, "--timeout", "5s")
    assert (status, "needs --wait TIME" in shown) == (2, True)
    status, shown = _run(table, "--wait", "-5", "--json")
    assert (status, json.loads(shown)["version"]) == (0, 0)
