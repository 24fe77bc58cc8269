"""The example of devices that fall silent, as users run it."""

import os
import subprocess
import sys

import pytest

from tests.quick_spark import quick_environment
from tests.server import ServerProcess


@pytest.mark.soak  # `make test` runs its processor in test_replay
@pytest.mark.parametrize(
    ("options", "stream"),
    [
        (["--days", "1"], "example/telemetry"),
        (["--days", "2", "--flights"], "example/aircraft"),
    ],
)
def test_the_example_finds_what_plain_python_finds(
    shared_server: ServerProcess, options: list[str], stream: str
) -> None:
    command = [sys.executable, "-m", "examples.offline_devices", *options]
    ended = subprocess.run(
        [*command, "--url", shared_server.url, "--stream", stream],
        stdout=subprocess.PIPE,
        env=os.environ | quick_environment(),
        text=True,
        check=False,
    )
    last = ended.stdout.splitlines()[-1]
    assert last.endswith("changes, as plain Python finds them")
    assert ended.returncode == 0
