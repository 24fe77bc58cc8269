"""`tidegauge intervals` over a Delta table: what it lists, and a command that runs once for each."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.patience import PATIENCE_S
from tests.written_tables import BEGIN, HOUR, Delta
from tidegauge_cli.verbs import app

_LOGS = """
import sys
log, *words = sys.argv[1:]
with open(log, "a") as file:
    file.write(" ".join(words) + "\\n")
"""


class Cron:
    """A table, and a command that logs what it runs and fails for some hours."""

    def __init__(self, folder: Path) -> None:
        self.table, self.folder = Delta(folder), folder
        self.state, self.log = folder / "state.json", folder / "log"
        self.script = folder / "run.py"
        self.write(_LOGS)

    def write(self, script: str) -> None:
        self.script.write_text(script)

    def hours(self, *hours: int, late: int | None = None) -> None:
        for hour in hours:
            at = BEGIN + hour * HOUR
            self.table.append(at, until=at + HOUR, column="t")
        if late is not None:
            self.table.append(BEGIN + late * HOUR)

    def words(self, *more: str) -> list[str]:
        command = [
            sys.executable,
            str(self.script),
            str(self.log),
            "{start}",
            "{end}",
            "{version}",
        ]
        return [
            "intervals", self.table.name, "--state", str(self.state), *more, "--", *command
        ]  # fmt: skip

    def run(self) -> tuple[int, list[str]]:
        """Run the verb, and return its status with what was logged since."""
        self.log.write_text("")
        ran = CliRunner().invoke(app, self.words())
        return ran.exit_code, self.log.read_text().splitlines()


@pytest.fixture
def cron(tmp_path: Path) -> Cron:
    return Cron(tmp_path)


def test_it_lists_what_is_new_and_what_has_changed_and_where_it_ended(cron: Cron) -> None:
    cron.hours(0)
    ran = CliRunner().invoke(app, ["intervals", cron.table.name])
    new, since = ran.stdout.splitlines()
    assert new == "new    2026-01-05T00:00:00Z  2026-01-05T01:00:00Z  version 0"
    cursor = since.removeprefix("since  ")
    cron.hours(1, late=0)
    words = ["intervals", cron.table.name, "--since", cursor, "--by", "1 hour"]
    lines = CliRunner().invoke(app, words).stdout.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [
        ["new", "2026-01-05T01:00:00Z"],
        ["again", "2026-01-05T00:00:00Z"],
    ]
    assert lines[1].endswith("version 2  1 late, by up to 2h")
    document = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert document["version"] == 2
    assert document["again"] == [
        {
            "start": BEGIN,
            "end": BEGIN + HOUR,
            "rows": 1,
            "late_by": 2 * HOUR,
            "rewritten": False,
        }
    ]


def test_each_hour_runs_once_and_once_more_after_a_late_row(cron: Cron) -> None:
    cron.hours(0, 1)
    first = ["2026-01-05T00:00:00Z 2026-01-05T01:00:00Z 1"]
    assert cron.run() == (0, [*first, "2026-01-05T01:00:00Z 2026-01-05T02:00:00Z 1"])
    assert cron.run() == (0, [])
    cron.hours(late=0)
    assert cron.run() == (0, [first[0].removesuffix("1") + "2"])
    assert cron.run() == (0, [])


def test_what_failed_stays_and_takes_the_newer_version(cron: Cron) -> None:
    cron.hours(0, 1)
    cron.write(_LOGS + "\nsys.exit('T00' in words[0])")
    status, logged = cron.run()
    assert (status, len(logged)) == (1, 2)
    cron.hours(2, late=0)
    status, logged = cron.run()
    assert status == 1
    assert [line.split()[0][11:13] + line[-2:] for line in logged] == ["00 3", "02 3"]
    cron.write(_LOGS)
    assert cron.run() == (0, logged[:1])


def test_a_run_that_is_killed_goes_on_where_it_was_and_two_do_not_run_at_once(
    cron: Cron,
) -> None:
    cron.hours(0, 1, 2)
    cron.write(
        _LOGS
        + "\nimport time\nif 'T01' in words[0]:\n    print('here', flush=True)\n    time.sleep(600)"
    )
    command = [sys.executable, "-m", "tidegauge_cli", *cron.words()]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as runs:
        assert runs.stdout is not None
        assert runs.stdout.readline() == "here\n"
        assert cron.run() == (0, [])
        runs.kill()
        runs.wait(PATIENCE_S)
        assert cron.run() == (0, [])  # its command goes on
        os.killpg(runs.pid, signal.SIGKILL)
        runs.stdout.read()
    cron.write(_LOGS)
    status, logged = cron.run()
    assert (status, [line[11:13] for line in logged]) == (0, ["01", "02"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--state", "FILE"], "goes with a command after --"),
        (["--", "run"], "goes with a command after --"),
        (["--since", "[1]", "--state", "FILE", "--", "run"], "whose file has the cursor"),
        (["--since", "[1]"], "is no cursor of a table"),
        (["--by", "month"], "'month' is not a length of time"),
        (["--state", "FILE", "--", "no-such-command"], "No such file or directory"),
    ],
)
def test_what_is_typed_wrong_is_named(cron: Cron, words: list[str], told: str) -> None:
    cron.hours(0)
    given = [word.replace("FILE", str(cron.state)) for word in words]
    ran = CliRunner().invoke(app, ["intervals", cron.table.name, *given])
    assert ran.exit_code != 0
    assert told in " ".join(ran.output.replace("│", "").split())


def test_a_file_that_is_no_state_is_left_alone(cron: Cron) -> None:
    cron.hours(0)
    cron.state.write_text("{}[")
    assert cron.run() == (1, [])
    assert cron.state.read_text() == "{}["
