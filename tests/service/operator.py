"""Who types verbs, in tests: in this process or in another one, and whole sessions at once."""

import re
import shlex
import subprocess
from contextlib import AbstractContextManager
from textwrap import dedent

from typer.testing import CliRunner, Result

from tests.programs import python
from tidegauge_cli.verbs import app

URL = "http://localhost"


class Operator:
    """Types verbs at a service: one that clients in this process reach, unless another is named."""

    def __init__(self, url: str = URL) -> None:
        self.url = url

    def type(self, *words: str) -> Result:
        environment = {"TIDEGAUGE_URL": self.url, "COLUMNS": "200"}
        return CliRunner().invoke(app, list(words), env=environment)

    def start(self, *words: str) -> AbstractContextManager["subprocess.Popen[str]"]:
        return python("-m", "tidegauge_cli", *words, "--url", self.url)

    def says(self, *words: str) -> str:
        result = self.type(*words)
        assert result.exit_code == 0, result.output
        return result.stdout


def _said(typed: Result) -> str:
    """Show what a verb prints, what is no answer behind "2>", and its status.

    Of a refusal, which ends the process with a text, click makes an answer.
    """
    error = f"2> {typed.stderr}" if typed.stderr else ""
    status = f"[{typed.exit_code}]" if typed.exit_code else ""
    return " ".join(f"{typed.stdout} {error} {status}".replace("│", " ").split())


def check_session(session: str) -> None:
    """Type each line that begins with "$", which prints what follows it; … is anything.

    Where nothing follows, it succeeds.
    """
    for step in dedent(session).strip().removeprefix("$ ").split("\n$ "):
        words, _, expected = step.partition("\n")
        typed = Operator().type(*shlex.split(words))
        if not expected:
            assert typed.exit_code == 0, words
            continue
        pattern = ".*".join(map(re.escape, " ".join(expected.split()).split("…")))
        assert re.fullmatch(pattern, said := _said(typed)), f"{words}\n{said}"
