"""Each orchestrator in an environment of its own: hours run once, late ones once more, over a kill.

An environment takes 530 to 660 MB and some minutes; it is removed behind its story.
"""

import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.server import free_port
from tests.written_tables import BEGIN, HOUR, Delta, utc_text

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "orchestrators"
_PATIENCE_S = 600
"""Airflow needs half a minute to start, and fails a killed task after another one."""


def main() -> None:
    """Run the stories that are named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.orchestrators")
    parser.add_argument("names", nargs="*", choices=[[], *ORCHESTRATORS], metavar="NAME")
    parser.add_argument(
        "--keep", type=Path, help="keep environments here, and take those there"
    )
    given = parser.parse_args()
    for name in given.names or ORCHESTRATORS:
        with tempfile.TemporaryDirectory(prefix=f"orchestrator-{name}-") as folder:
            orchestrator = ORCHESTRATORS[name]
            python = _environment(
                Path(given.keep or folder) / f"venv-{name}", orchestrator.needs
            )
            begun = time.monotonic()
            _tell(Path(folder), orchestrator, python)
            print(f"{name}: as described, in {time.monotonic() - begun:.0f} s", flush=True)


@dataclass
class Orchestrator:
    """How a real one is run with its example.

    Attributes
    ----------
    needs
        What is installed besides Tidegauge.
    command
        Makes its command line of the folder of its environment's programs, and of its home.
    settings
        Makes what is in its environment, of its home.
    again_s
        It is started again and again after so many seconds; None if it runs on.
    """

    needs: list[str]
    command: Callable[[Path, Path], list[str]]
    settings: Callable[[Path], Mapping[str, str]] = field(default=lambda _: {})
    again_s: float | None = None


def _airflow(home: Path) -> Mapping[str, str]:
    port, *others = (str(free_port()) for _ in range(3))
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__API__PORT": port,
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Fewer than the hours that come at once.
        "AIRFLOW__CORE__MAX_MAP_LENGTH": "4",
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": others[0],
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": others[1],
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "PYTHONPATH": str(EXAMPLES),
    }


def _dagster(home: Path) -> Mapping[str, str]:
    settings = (EXAMPLES / "dagster.yaml").read_text()
    quick = settings.replace(" 180", " 30").replace(" 3600", " 60")
    (home / "dagster.yaml").write_text(quick)
    return {"DAGSTER_HOME": str(home)}


ORCHESTRATORS = {
    "cron": Orchestrator([], lambda _, __: [str(EXAMPLES / "cron.sh")], again_s=1),
    "airflow": Orchestrator(
        ["apache-airflow==3.3.2"],
        lambda programs, _: [str(programs / "airflow"), "standalone"],
        _airflow,
    ),
    "dagster": Orchestrator(
        ["dagster==1.13.29"],
        lambda programs, _: [
            str(programs / "dagster-daemon"),
            "run",
            "--python-file",
            str(EXAMPLES / "dagster_hours.py"),
            "--working-directory",
            str(EXAMPLES),
        ],
        _dagster,
    ),
}


def _environment(folder: Path, needs: list[str]) -> Path:
    """Make a virtual environment with Tidegauge; return the folder of its programs."""
    programs = folder / "bin"
    if not (programs / "tidegauge").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [str(programs / "python"), "-m", "pip", "install", "--quiet", *needs]
        subprocess.run([*install, f"{ROOT}[cli,tables]"], check=True)
    return programs


def _tell(folder: Path, orchestrator: Orchestrator, programs: Path) -> None:
    """Let hours become complete and rows come late, and kill it in between."""
    table, log, home = Delta(folder), folder / "log", folder / "home"
    home.mkdir()
    log.touch()
    named = {"TABLE": table.name, "LOG": str(log), "STATE": str(folder / "state"), "EVERY": "3"}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    given = {
        **os.environ,
        "PYTHONPATH": "",
        "PATH": path,
        **named,
        **orchestrator.settings(home),
    }
    command = orchestrator.command(programs, home)
    _feed(table, 0, 1, 2)
    with _running(command, given, home, orchestrator.again_s):
        _expect(log, {0: 1, 1: 1, 2: 1})
        table.append(BEGIN + HOUR + 1)  # late
        _expect(log, {0: 1, 1: 2, 2: 1})
        _feed(table, *range(3, 9))
        _wait(lambda: sum(_runs(log).values()) > 4, log)
    # What was running when it was killed runs again, as any job must bear.
    before = _runs(log)
    _feed(table, *range(9, 15))
    with _running(command, given, home, orchestrator.again_s):
        _wait(lambda: _runs(log).keys() >= set(range(15)), log)
        table.append(BEGIN + 2 * HOUR + 1)  # whatever is still to come is before it
        _wait(lambda: _runs(log)[2] > 1, log)
    found = _runs(log)
    again = {hour: found[hour] - 1 for hour in range(3, 15) if found[hour] > 1}
    assert (found[0], found[1], found[2]) == (1, 2, 2), found
    assert all(hour in before and count == 1 for hour, count in again.items()), found
    print(f"  killed after {sum(before.values())} runs; ran again: {sorted(again)}", flush=True)
    _check_rows(log)


def _feed(table: Delta, *hours: int) -> None:
    for hour in hours:
        at = BEGIN + hour * HOUR
        table.append(at, at + HOUR // 2, until=at + HOUR)


def _hours(log: Path) -> list[tuple[str, int, int]]:
    """Read what the jobs wrote: the start of each hour, its rows, and how often it ran."""
    with closing(sqlite3.connect(log, timeout=60)) as database:
        is_made = database.execute(
            "SELECT 1 FROM sqlite_schema WHERE name = 'hours'"
        ).fetchone()
        read = "SELECT start, rows, runs FROM hours" if is_made else "SELECT 1 WHERE false"
        return database.execute(read).fetchall()


def _runs(log: Path) -> Counter[int]:
    """Count the runs of each hour."""
    hours = {utc_text(BEGIN + hour * HOUR): hour for hour in range(24)}
    return Counter({hours[start]: runs for start, _, runs in _hours(log)})


def _check_rows(log: Path) -> None:
    """Compare with what the table had: each hour two rows, and a late one in its second run."""
    assert sorted(rows for _, rows, _ in _hours(log)) == [2] * 13 + [3] * 2, _hours(log)


def _expect(log: Path, runs: Mapping[int, int]) -> None:
    _wait(lambda: sum(_runs(log).values()) >= sum(runs.values()), log)
    assert _runs(log) == runs, _hours(log)


def _wait(holds: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(_hours(log))
        time.sleep(0.2)


@contextmanager
def _running(
    command: list[str], given: Mapping[str, str], home: Path, again_s: float | None
) -> Iterator[None]:
    """Run it, and kill it with all its processes."""
    words = command
    if again_s is not None:
        words = ["sh", "-c", f'while :; do "$0" "$@"; sleep {again_s}; done', *command]
    with (
        (home / "output").open("a") as output,
        subprocess.Popen(
            words,
            env=dict(given),
            cwd=home,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield
        except BaseException:
            print((home / "output").read_text()[-20_000:], file=sys.stderr)
            raise
        finally:
            whole = [psutil.Process(process.pid)]
            whole += whole[0].children(recursive=True)
            for one in whole:
                one.kill()


if __name__ == "__main__":
    main()
