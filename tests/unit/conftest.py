"""Fixtures of tests that call a service in process."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count

import pytest

from controller.configuration import ServeSettings
from tests.conftest import NewDatabase
from tests.service.in_process import Service, served_in_process
from tests.service.log_api import LogApi
from tests.service.shop import Open, Shop
from tests.simulation.quiet import QuietWorld, quiet_world

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def service(
    tmp_path_factory: pytest.TempPathFactory, new_database: NewDatabase
) -> Iterator[Service]:
    """A service for the tests of a module."""
    url = new_database(tmp_path_factory.mktemp("service"))
    with served_in_process(ServeSettings(database_url=url)) as running:
        yield running


@pytest.fixture
def open_shop(service: Service) -> Iterator[Open]:
    """Make streams of this test's own, which clients reach, too."""
    with ExitStack() as shops:
        shops.enter_context(service.reached_by_clients())
        yield lambda **settings: shops.enter_context(
            Shop(service.url, transport=service, pass_time=service.pass_time, **settings)
        )


@pytest.fixture
def log(service: Service) -> Iterator[LogApi]:
    """The log of a stream of this test's own, which it creates, and which clients reach, too."""
    name = f"tests/log-{next(_NUMBERS)}"
    with service.reached_by_clients(), LogApi(service.url, name, transport=service) as api:
        yield api


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[QuietWorld]:
    """A controller under virtual time, or as many as a test asks for."""
    with quiet_world(getattr(request, "param", 1)) as world:
        yield world
