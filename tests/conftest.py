"""Fixtures for everybody: real server processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server import Api, ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with an empty database of its own."""
    with ServerProcess(tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests that only need a stream with a name of its own."""
    with ServerProcess(tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    """Calls to the server of this test."""
    with Api(server.url) as calls:
        yield calls
