"""Who types verbs, in tests."""

import subprocess
from contextlib import AbstractContextManager

from typer.testing import CliRunner, Result

from tests.programs import python
from tidegauge_cli.verbs import app


class Operator:
    """Types verbs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def type(self, *words: str) -> Result:
        environment = {"TIDEGAUGE_URL": self.url, "COLUMNS": "120"}
        return CliRunner().invoke(app, list(words), env=environment)

    def start(self, *words: str) -> AbstractContextManager["subprocess.Popen[str]"]:
        return python("-m", "tidegauge_cli", *words, "--url", self.url)

    def says(self, *words: str) -> str:
        result = self.type(*words)
        assert result.exit_code == 0, result.output
        return result.stdout
