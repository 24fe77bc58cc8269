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
from tidegauge.tables import intervals
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
        command = [sys.executable, self.script, self.log, "{start}", "{end}", "{version}"]
        words = ["intervals", self.table.name, "--state", self.state, *more, "--", *command]
        return list(map(str, words))

    def refused(self, *more: str) -> str:
        """Run the verb, and return the line in which it refuses."""
        (line,) = CliRunner().invoke(app, self.words(*more)).output.splitlines()
        return line

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


def test_what_failed_stays_and_takes_the_newer_version(cron: Cron) -> None:
    cron.hours(0, 1)
    cron.write(_LOGS + "\nsys.exit('T00' in words[0])")
    status, logged = cron.run()
    assert (status, len(logged)) == (1, 2)
    cron.hours(2, late=0)
    status, logged = cron.run()
    assert status == 1
    assert [line.split()[0][11:13] + line[-2:] for line in logged] == ["00 3", "02 3"]
    # Also without a change of its own hour: the version of the former look may not be kept.
    cron.hours(3)
    status, logged = cron.run()
    assert (status, [line[-1] for line in logged]) == (1, ["4", "4"])
    cron.write(_LOGS)
    assert cron.run() == (0, logged[:1])


def test_what_is_left_keeps_its_version_while_the_table_says_nothing(cron: Cron) -> None:
    cron.hours(0, 1)
    cron.write("import sys; sys.exit(1)")
    assert cron.run()[0] == 1
    cron.table.table.restore(0)
    cron.write(_LOGS)
    assert [line[-1] for line in cron.run()[1]] == ["1", "1"]


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
        (["--since", "[1]"], "is no cursor of a table"),
        (["--by", "month"], "'month' is not a length of time"),
        (["--state", "FILE", "--", "no-such-command"], "No such file or directory"),
        (
            ["--state", "FILE/none", "--", "run"],
            "state.json/none: No such file or directory; fix",
        ),
    ],
)
def test_what_is_typed_wrong_is_named(cron: Cron, words: list[str], told: str) -> None:
    cron.hours(0)
    given = [word.replace("FILE", str(cron.state)) for word in words]
    ran = CliRunner().invoke(app, ["intervals", cron.table.name, *given])
    assert ran.exit_code != 0
    assert told in " ".join(ran.output.replace("│", "").split())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "Invalid JSON"),
        (b"\xff", "Invalid JSON"),
        (b'{"cursor": null, "left": ["T00"]}', "left: 0: "),
        (b'{"left": [{"start": "2026-01-05T00:00:00Z"}]}', "left: 0: end: Field required"),
        (
            b'{"cursor": null, "left": [], "of": 2}',
            '--start, no later than the first interval in its "left"',
        ),
    ],
)
def test_a_file_that_is_no_state_is_left_alone_and_named(
    cron: Cron, content: bytes, told: str
) -> None:
    cron.hours(0)
    cron.state.write_bytes(content)
    line = cron.refused()
    assert line.startswith(f"tidegauge: {cron.state} is no state file of this version: ")
    assert told in line
    assert cron.state.read_bytes() == content


@pytest.mark.parametrize(
    ("words", "swapped", "told"),
    [
        (["--by", "1d"], {}, "no later than 2026-01-05T00:00:00.000Z"),
        (["--zone", "Asia/Kolkata"], {}, "no later than 2026-01-05T02:30:00.000Z"),
        ([], {2: "another"}, "no later than 2026-01-05T03:00:00.000Z"),
    ],
)
def test_who_begins_with_another_state_file_is_told_what_the_former_has_left(
    cron: Cron, words: list[str], swapped: dict[int, str], told: str
) -> None:
    cron.hours(11)
    cursor = dict(enumerate(json.loads(intervals(cron.table.name).cursor or ""))) | swapped
    left = [
        {"start": f"2026-01-05T{at}:00:00Z", "end": "", "version": "0"} for at in ("09", "03")
    ]
    state = {"cursor": json.dumps(list(cursor.values())), "left": left}
    cron.state.write_text(json.dumps(state))
    end = f"(the cursor is in {cron.state}, with intervals left: start {told})"
    assert cron.refused(*words).endswith(end)


def test_a_state_file_that_is_a_link_stays_one_and_is_locked_where_it_leads(cron: Cron) -> None:
    cron.hours(0)
    (cron.folder / "disk").mkdir()
    kept = cron.folder / "disk" / "kept.json"
    cron.state.symlink_to(kept)
    assert cron.run()[0] == 0
    assert cron.state.is_symlink()
    assert json.loads(kept.read_text())["left"] == []
    assert kept.with_name("kept.json.lock").exists()


def test_a_full_disk_is_named_with_the_file_before_anything_runs(cron: Cron) -> None:
    cron.hours(0)
    Path(f"{cron.state}.new").symlink_to("/dev/full")
    said = f"tidegauge: {cron.state}: No space left on device; fix that; the"
    assert cron.refused().startswith(said)
    assert not cron.log.exists()


def test_braces_of_a_command_that_are_none_of_ours_are_left_alone(cron: Cron) -> None:
    cron.hours(0)
    others = "${start} ${end:-x} {{version}} {} [0-9]{4} {a,b} {1..3} { end }"
    words = [*cron.words(), *others.split(), "{a: 1}", '{"at":{"{end}":{version}}}']
    assert CliRunner().invoke(app, words).exit_code == 0
    assert cron.log.read_text().endswith(
        f'{others} {{a: 1}} {{"at":{{"2026-01-05T01:00:00Z":0}}}}\n'
    )
