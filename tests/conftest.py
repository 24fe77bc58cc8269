"""Fixtures for everybody: real server processes, and a real PostgreSQL."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.postgres import Cluster, running_cluster
from tests.server import Api, ServerProcess

NewDatabase = Callable[[Path], str]
"""Makes a database of its own, in a directory if it is a file, and returns its address."""


class NewServer(Protocol):
    """Makes a server with an empty database of its own, for the test to start."""

    def __call__(self, **options: Any) -> ServerProcess:
        """Take what a `ServerProcess` takes further."""


def pytest_configure() -> None:
    """Let processes that tests start end at Ctrl-C, though a shell's background jobs do not."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of the service on both databases, unless they say that they are about one."""
    if "database_kind" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("only_on")
        of_service = "integration" in metafunc.definition.path.parts
        kinds = ["sqlite", "postgresql"] if of_service else ["sqlite"]
        kinds = [marker.args[0]] if marker else kinds
        metafunc.parametrize("database_kind", kinds, scope="session")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A PostgreSQL server, which tests make databases on."""
    with running_cluster() as running:
        yield running


@pytest.fixture(scope="session")
def database_kind() -> str:
    """Of which kind databases are; the tests of the service have both."""
    return "sqlite"


@pytest.fixture(scope="session")
def new_database(database_kind: str, request: pytest.FixtureRequest) -> NewDatabase:
    """Databases of the kind that is asked for."""
    if database_kind == "postgresql":
        cluster = request.getfixturevalue("cluster")
        return lambda _directory: str(cluster.database())
    return lambda directory: f"sqlite:///{directory / 'tidegauge.db'}"


@pytest.fixture(scope="session")
def new_server(
    tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> NewServer:
    """Servers with databases of the kind that is asked for."""

    def make(**options: Any) -> ServerProcess:
        directory = tmp_path_factory.mktemp("server")
        return ServerProcess(directory, database_url=new_database(directory), **options)

    return make


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
def shared_servers() -> Iterator[dict[str, ServerProcess]]:
    """Those that run for all modules, by the kind of their database."""
    servers: dict[str, ServerProcess] = {}
    yield servers
    for one in servers.values():
        one.kill()


@pytest.fixture(scope="session")
def shared_server(
    database_kind: str, new_server: NewServer, shared_servers: dict[str, ServerProcess]
) -> ServerProcess:
    """One server for all tests that only need a stream with a name of its own."""
    if database_kind not in shared_servers:
        shared_servers[database_kind] = new_server()
        shared_servers[database_kind].start()
    return shared_servers[database_kind]


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    """Calls to the server of this test."""
    with Api(server.url) as calls:
        yield calls
