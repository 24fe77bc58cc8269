"""Fixtures for everybody: real server processes, and a real PostgreSQL."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres import Cluster, running_cluster
from tests.server import Api, ServerProcess

NewDatabase = Callable[[Path], str]
"""Makes a database of its own, in a directory if it is a file, and returns its address."""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server, which tests make databases on."""
    with running_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def new_database() -> NewDatabase:
    """Databases of SQLite; the tests of the service have both kinds."""
    return lambda directory: f"sqlite:///{directory / 'tidegauge.db'}"


@pytest.fixture
def database_url(tmp_path: Path, new_database: NewDatabase) -> str:
    """The address of an empty database."""
    return new_database(tmp_path)


@pytest.fixture
def server(tmp_path: Path, database_url: str) -> Iterator[ServerProcess]:
    """A server with an empty database of its own."""
    with ServerProcess(tmp_path, database_url=database_url) as running:
        yield running


@pytest.fixture(scope="session")
def shared_server(
    tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> Iterator[ServerProcess]:
    """One server for all tests that only need a stream with a name of its own."""
    directory = tmp_path_factory.mktemp("shared")
    with ServerProcess(directory, database_url=new_database(directory)) as running:
        yield running


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    """Calls to the server of this test."""
    with Api(server.url) as calls:
        yield calls
