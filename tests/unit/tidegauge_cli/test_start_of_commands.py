"""What people wait for at a prompt loads no more than it shows; counted in modules, not in time."""

import subprocess
import sys
from importlib.metadata import version
from pkgutil import resolve_name

import pytest
import typer

from tidegauge_cli.verbs import VERBS, whole_command


def _loaded(*words: str) -> tuple[str, set[str]]:
    """Run the command, and list what Python has imported for it."""
    command = [sys.executable, "-X", "importtime", "-m", "tidegauge_cli", *words]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return ran.stdout, {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}


def test_the_version_is_shown_without_the_verbs() -> None:
    shown, loaded = _loaded("--version")
    assert shown == f"{version('tidegauge')}\n"
    assert loaded & {"typer", "pydantic", "rich", "tidegauge_cli.verbs"} == set()


def test_the_help_is_shown_without_any_verb() -> None:
    shown, loaded = _loaded("--help")
    assert "note-time" in shown
    ours = {module for module in loaded if module.startswith("tidegauge")}
    names = ("", ".extras", ".start", ".verbs")
    assert ours == {f"tidegauge_cli{name}" for name in names}
    assert loaded & {"asyncio", "httpx", "pydantic"} == set()


@pytest.mark.parametrize(
    ("verb", "says", "unneeded"),
    [
        (
            "why",
            "who holds it",
            (
                "controller httpx pandas pyarrow pyspark tenacity tidegauge.aggregator "
                "tidegauge.client.transport examples.flights tidegauge_cli.settings"
            ),
        ),
        ("serve", "--database-url", "fastapi sqlalchemy structlog"),
    ],
)
def test_the_help_of_a_verb_loads_neither_the_others_nor_what_they_need(
    verb: str, says: str, unneeded: str
) -> None:
    shown, loaded = _loaded(verb, "--help")
    assert says in shown
    assert loaded & {*unneeded.split()} == set()


def test_the_list_says_of_each_verb_what_its_help_says() -> None:
    listed = {verb: line for lines in VERBS.values() for verb, line in lines.items()}
    helps = {verb: command.help for verb, command in whole_command().commands.items()}
    assert listed == {verb: text.partition("\n\n")[0] for verb, text in helps.items()}


def test_the_list_has_all_verbs_of_a_module() -> None:
    for place, listed in VERBS.items():
        verbs = list(typer.main.get_group(resolve_name(f"tidegauge_cli.{place}")).commands)
        if not listed.keys().isdisjoint(verbs):  # otherwise a group, which is one verb
            assert verbs == list(listed), place
