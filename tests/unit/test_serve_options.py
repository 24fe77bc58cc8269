"""``tidegauge serve --help`` tells all there is to set, and nothing else."""

import subprocess
import sys

import typer

from controller.configuration import ServeSettings
from tidegauge_cli.main import app

SERVE = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
OPTIONS = {option.name: option for option in SERVE.params}


def test_every_setting_is_an_option_with_the_same_default_and_an_environment_variable() -> None:
    settings = ServeSettings.model_fields
    assert OPTIONS.keys() == settings.keys()
    for name, option in OPTIONS.items():
        assert option.default == settings[name].default, name
        assert option.envvar == f"TIDEGAUGE_{name.upper()}"
        assert option.opts == [f"--{name.replace('_', '-')}"]
        assert option.help.endswith(".")


def test_help_is_clean() -> None:
    command = [sys.executable, "-W", "error", "-m", "tidegauge_cli", "serve", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert "Traceback" not in ran.stdout
    for name in OPTIONS:
        assert f"--{name.replace('_', '-')} " in ran.stdout
