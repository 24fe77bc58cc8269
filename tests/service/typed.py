"""Sessions at the command line, in this process: lines that are typed, and what is printed then."""

import re
import shlex
from textwrap import dedent

from typer.testing import CliRunner, Result

from tidegauge_cli.verbs import app

URL = "http://localhost"


def type_verb(words: str) -> Result:
    environment = {"TIDEGAUGE_URL": URL, "COLUMNS": "200"}
    return CliRunner().invoke(app, shlex.split(words), env=environment)


def _said(words: str) -> str:
    """Type a verb; return what it prints, what is no answer behind "2>", and its status.

    Of a refusal, which ends the process with a text, click makes an answer.
    """
    typed = type_verb(words)
    error = f"2> {typed.stderr}" if typed.stderr else ""
    status = f"[{typed.exit_code}]" if typed.exit_code else ""
    return " ".join(f"{typed.stdout} {error} {status}".replace("│", " ").split())


def check_session(session: str) -> None:
    """Type each line that begins with "$", which prints what follows it; … is anything.

    Where nothing follows, it succeeds.
    """
    for step in dedent(session).strip().removeprefix("$ ").split("\n$ "):
        words, _, expected = step.partition("\n")
        if not expected:
            assert type_verb(words).exit_code == 0, words
            continue
        pattern = ".*".join(map(re.escape, " ".join(expected.split()).split("…")))
        assert re.fullmatch(pattern, said := _said(words)), f"{words}\n{said}"
