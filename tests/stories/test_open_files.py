"""Connections are open files: the service takes as many as the system lets it."""

import socket
from contextlib import ExitStack

import httpx
import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S
from tests.server import LAUNCHER

pytestmark = pytest.mark.only_on("sqlite", "no database has a part in it")
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, {most})); "


def test_the_soft_limit_of_open_files_keeps_nobody_out(new_server: NewServer) -> None:
    launcher = LIMITED.format(most=1_000) + LAUNCHER
    with new_server(launcher=launcher, max_long_polls=500) as server, ExitStack() as open_files:
        for _ in range(150):
            connection = socket.create_connection(("127.0.0.1", server.port))
            open_files.enter_context(connection)
        ready = httpx.get(f"{server.url}/readyz", timeout=PATIENCE_S)
        assert ready.status_code == 200
        assert "open files" not in server.log.read_text()


def test_a_hard_limit_that_long_polls_could_use_up_is_told_at_the_start(
    new_server: NewServer,
) -> None:
    with new_server(launcher=LIMITED.format(most=1_000) + LAUNCHER) as server:
        told = (
            "1000 open files are too few for max_long_polls of 10000: allow 10500 (ulimit -Hn)"
        )
        assert server.log.read_text().count(told) == 1
