"""Ctrl-C ends every verb at once, without a traceback, whatever it is doing."""

import signal
import socket

import pytest

from tests.patience import PATIENCE_S
from tests.programs import python

_LOADING = """
import signal, sys, threading
sys.argv = ["tidegauge", *{words!r}]
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from tidegauge_cli import main
main()
"""


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["streams"], "tidegauge_cli.extras"),
        (["streams"], "typer"),
        (["streams"], "tidegauge.wire.streams"),
        (["serve", "--port", "0"], "controller.commit.sequencer"),
    ],
)
def test_while_it_loads(words: list[str], module: str) -> None:
    with python("-c", _LOADING.format(words=words, module=module)) as process:
        said, complained = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said, complained) == (-signal.SIGINT, "", "")


def test_while_the_demo_loads_what_it_has_announced() -> None:
    with python("-c", _LOADING.format(words=["demo"], module="pyspark")) as process:
        said, complained = process.communicate(timeout=PATIENCE_S)
    assert "Ctrl-C ends it" in said
    assert (process.returncode, complained) == (-signal.SIGINT, "")


def test_while_it_waits_for_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with python("-m", "tidegauge_cli", "streams", "--url", url) as process:
            connection, _ = silent.accept()
            connection.recv(1)
            process.send_signal(signal.SIGINT)
            said, complained = process.communicate(timeout=PATIENCE_S)
            connection.close()
    assert (process.returncode, said, complained) == (130, "", "")
