"""The verbs as processes: a reader that ends early, a full disk, an outage, and Ctrl-C at any time."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.programs import python
from tests.server import ServerProcess, free_port
from tests.service.api import Api
from tests.service.operator import Operator

pytestmark = pytest.mark.only_on("sqlite", "verbs know the service only")

NOON = 1_704_110_400_000


@pytest.fixture
def operator(server: ServerProcess, api: Api) -> Operator:
    """Who types at a server of one stream."""
    api.create()
    return Operator(server.url)


def test_an_outage_is_told_as_one() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    nobody = Operator(url).type("streams")
    assert nobody.exit_code == 1
    begun, given_up = nobody.output.splitlines()
    assert begun.startswith(f"tidegauge: retrying {url} for up to 3 s: ")
    assert given_up.startswith(f"tidegauge: no answer from {url}: ")
    assert given_up.endswith("is the service running there?")


def test_a_reader_that_has_seen_enough_of_a_list_ends_it(operator: Operator, api: Api) -> None:
    api.many({"writer": f"w{n}", "time": NOON, "position": {}} for n in range(5_000))
    with operator.start("writers", api.name) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        assert listing.stdout.readline().split()[:2] == ["writer", "state"]
        listing.stdout.close()
        assert listing.stderr.read() == ""
        assert listing.wait(timeout=PATIENCE_S) == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [("writers",), ("why", "--json")])
def test_an_output_that_cannot_be_written_is_told_in_one_line(
    operator: Operator, api: Api, words: tuple[str, ...], unbuffered: str
) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "tidegauge_cli", *words, api.name, "--url", operator.url],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    reason = "tidegauge: cannot write the output: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, reason)


def test_watch_tells_every_change_until_it_is_interrupted(operator: Operator, api: Api) -> None:
    with operator.start("watch", api.name, "--json") as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["watermark"] is None
        api.note("a", NOON)
        assert json.loads(watching.stdout.readline())["watermark"] == NOON
        api.note("b", NOON + 1)
        held = json.loads(watching.stdout.readline())["explanation"]
        assert [holder["writer"] for holder in held["holders"]] == ["a"]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=PATIENCE_S) == 130


_HURRIED = """
import sys
from datetime import timedelta
from tidegauge.client import outage
outage.TAKE_OVER = timedelta(seconds=1)
from tidegauge_cli import main
sys.argv = ["tidegauge", *sys.argv[1:]]
main()
"""


def test_watch_follows_an_external_log_through_an_outage_to_its_seal(
    operator: Operator, server: ServerProcess, api: Api
) -> None:
    words = ("watch", api.name, "--url", operator.url)
    with python("-c", _HURRIED, *words) as watching:
        told, warned = watching.stdout, watching.stderr
        assert told is not None
        assert warned is not None
        assert told.readline().startswith("There is no mark yet: the stream has no writer")
        server.kill()
        assert "is the service running there?" in warned.readline()
        server.start()
        api.note("a", NOON, 4)
        assert "2024-01-01T12:00:00.000Z" in told.readline()
        assert warned.readline() == "tidegauge: the service answers again\n"
        api.post("seal", position={"0": 4})
        assert told.readline().startswith("The stream is sealed")
        assert watching.wait(timeout=PATIENCE_S) == 0


def test_wait_outlasts_an_outage_and_ends_at_ctrl_c(
    operator: Operator, server: ServerProcess, api: Api
) -> None:
    with operator.start("wait", api.name, str(NOON)) as waiting:
        server.wait_for_waiting(1)
        server.kill()
        assert waiting.stderr is not None
        assert "for up to 60 s: " in waiting.stderr.readline()
        server.start()
        api.note("a", NOON, 1)
        assert waiting.wait(timeout=PATIENCE_S) == 0
    with operator.start("wait", api.name, str(NOON + 1)) as waiting:
        server.wait_for_waiting(1)
        waiting.send_signal(signal.SIGINT)
        said, complained = waiting.communicate(timeout=PATIENCE_S)
        assert (waiting.returncode, said, complained) == (130, "", "")


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
def test_ctrl_c_ends_a_verb_while_it_loads(words: list[str], module: str) -> None:
    with python("-c", _LOADING.format(words=words, module=module)) as process:
        said, complained = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said, complained) == (-signal.SIGINT, "", "")


def test_ctrl_c_ends_a_verb_while_it_waits_for_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with python("-m", "tidegauge_cli", "streams", "--url", url) as process:
            connection, _ = silent.accept()
            connection.recv(1)
            process.send_signal(signal.SIGINT)
            said, complained = process.communicate(timeout=PATIENCE_S)
            connection.close()
    assert (process.returncode, said, complained) == (130, "", "")
