"""Every test of what the service stores runs on both databases."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import NewDatabase
from tests.integration.shop import Open, Shop
from tests.server import ServerProcess

ON_BOTH = {
    "test_deletion",
    "test_group_calls",
    "test_log",
    "test_log_crash",
    "test_log_faults",
    "test_log_lines",
    "test_log_model",
    "test_readers",
    "test_retention",
    "test_service_crash",
    "test_service_examples",
    "test_service_problems",
    "test_service_process",
    "test_service_streams",
    "test_writer_lifecycle",
    "test_writer_troubles",
}
"""Modules; the others are about something else, or about one of the two."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask for a database of one kind, and then of the other."""
    module = metafunc.module.__name__.rpartition(".")[2]
    if module in ON_BOTH and "new_database" in metafunc.fixturenames:
        kinds = ["sqlite", "postgresql"]
        metafunc.parametrize("new_database", kinds, indirect=True, scope="session")


@pytest.fixture(scope="session")
def new_database(request: pytest.FixtureRequest) -> NewDatabase:
    """Databases of the kind that is asked for."""
    if getattr(request, "param", "sqlite") == "postgresql":
        cluster = request.getfixturevalue("cluster")
        return lambda _directory: str(cluster.database())
    return lambda directory: f"sqlite:///{directory / 'tidegauge.db'}"


@pytest.fixture
def thoroughness(database_url: str) -> int:
    """Of how many tries, percent; the second kind of database has seldom errors of its own."""
    return 100 if database_url.startswith("sqlite") else 30


@pytest.fixture
def open_shop(shared_server: ServerProcess) -> Iterator[Open]:
    """Make streams of this test's own on the shared server."""
    with ExitStack() as shops:
        yield lambda **settings: shops.enter_context(Shop(shared_server.url, **settings))
