"""``tidegauge serve --help`` shows all settings, and nothing else."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.configuration import PARTS, ServeSettings
from tidegauge_cli.verbs import app, load

SERVE = load("serve")
OPTIONS = {option.name: option for option in SERVE.params}


def test_every_setting_is_an_option_with_the_same_default_and_an_environment_variable() -> None:
    settings = ServeSettings.model_fields
    assert OPTIONS.keys() == settings.keys()
    for name, option in OPTIONS.items():
        assert option.default == settings[name].default, name
        assert option.envvar == f"TIDEGAUGE_{name.upper()}"
        assert option.opts == [f"--{name.replace('_', '-')}"]
        assert option.help == settings[name].description
        assert option.help.endswith(".")


def test_every_part_of_the_settings_is_a_panel_of_the_help() -> None:
    panels = dict.fromkeys(option.rich_help_panel for option in SERVE.params)
    assert list(panels) == [part.model_config["title"] for part in PARTS]
    assert {name for part in PARTS for name in part.model_fields} == OPTIONS.keys()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--host=nosuch.invalid"], "cannot listen on nosuch.invalid: Name or service not"),
        (["--port=99999"], "--port 99999: must be at most 65535"),
        (["--log-level=loud"], "--log-level loud: must be 'debug', 'info', 'warning'"),
        (["--advertise-url=here"], "--advertise-url here: 'here' is not a service URL"),
        (
            ["--mark-thinning=often"],
            "--mark-thinning often: 'often' is not AGE:STEP,… of lengths",
        ),
        (["--max-database-bytes=4095"], "--max-database-bytes 4095: 131072 is the least; 0 is"),
        (["--tls-key=key.pem"], "tls_key without tls_certificate; give both"),
        # The certificate that is not there would end it otherwise.
        (
            ["--host=0.0.0.0", "--tls-certificate=absent.pem"],
            "listening on 0.0.0.0 without authentication would let anybody",
        ),
    ],
)
def test_what_cannot_be_served_is_told_in_the_words_of_the_options(
    options: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The log would go on to a stream that is closed after this test.
    monkeypatch.setattr("controller.serving.server.configure_logging", lambda *_: None)
    database = f"sqlite:///{tmp_path / 'unused.db'}"
    command = ["serve", "--port=0", f"--database-url={database}", *options]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 1
    assert f"tidegauge serve: {problem}" in refused.output
    assert list(tmp_path.iterdir()) == []
