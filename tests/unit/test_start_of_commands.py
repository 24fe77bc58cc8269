"""What people wait for at a prompt loads no more than it shows; counted in modules, not in time."""

import subprocess
import sys
from importlib.metadata import version


def _loaded(*words: str) -> tuple[str, set[str]]:
    """Run the command, and list what Python has imported for it."""
    command = [sys.executable, "-X", "importtime", "-m", "tidegauge_cli", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout, {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}


def test_the_version_is_shown_without_the_verbs() -> None:
    shown, loaded = _loaded("--version")
    assert shown == f"{version('tidegauge')}\n"
    assert loaded & {"typer", "pydantic", "rich", "tidegauge_cli.verbs"} == set()


def test_the_help_is_shown_without_a_client_of_the_service() -> None:
    shown, loaded = _loaded("--help")
    assert "note-time" in shown
    assert "tidegauge_cli.verbs" in loaded
    unneeded = {
        "httpx",
        "pandas",
        "pyarrow",
        "pyspark",
        "tenacity",
        "tidegauge.aggregation.aggregator",
        "tidegauge.client.transport",
    }
    assert loaded & unneeded == set()
