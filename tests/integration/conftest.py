"""Every test of the service runs on both databases, unless it says that it is about one."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.integration.shop import Open, Shop
from tests.server import ServerProcess

KINDS = ["sqlite", "postgresql"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Ask for a database of one kind, and then of the other."""
    if "database_kind" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("only_on")
        kinds = [marker.args[0]] if marker else KINDS
        metafunc.parametrize("database_kind", kinds, scope="session")


@pytest.fixture
def thoroughness(database_kind: str) -> int:
    """Of how many tries, percent; the second kind of database has seldom errors of its own."""
    return 100 if database_kind == "sqlite" else 30


@pytest.fixture
def open_shop(shared_server: ServerProcess) -> Iterator[Open]:
    """Make streams of this test's own on the shared server."""
    with ExitStack() as shops:
        yield lambda **settings: shops.enter_context(Shop(shared_server.url, **settings))
