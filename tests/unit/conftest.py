"""Fixtures of tests in one process: its loop, and a service in it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import Any, TypeAlias

import pytest

from controller.configuration import ServeSettings
from tests.conftest import NewDatabase
from tests.service.api import Api, Open
from tests.service.in_process import Service, served_in_process
from tests.service.log_api import LogApi
from tests.simulation.quiet import QuietWorld, quiet_world

Serve: TypeAlias = Callable[..., AbstractContextManager[LogApi]]
"""Starts a service of a test's own; takes its settings."""
_NUMBERS = count(1)


@pytest.fixture
def anyio_backend() -> str:
    """Run coroutines that are marked ``anyio`` by asyncio alone."""
    return "asyncio"


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
    with ExitStack() as streams, service.reached_by_clients():

        def make(**settings: object) -> Api:
            name = f"shop/orders-{next(_NUMBERS)}"
            calls = Api(service.url, name, transport=service, pass_time=service.pass_time)
            shop = streams.enter_context(calls)
            shop.create(**settings)
            return shop

        yield make


@pytest.fixture
def shop(open_shop: Open) -> Api:
    """A stream of a log elsewhere, of one partition."""
    return open_shop()


@pytest.fixture
def log(service: Service) -> Iterator[LogApi]:
    """The log of a stream of this test's own, which it creates, and which clients reach, too."""
    name = f"tests/log-{next(_NUMBERS)}"
    with service.reached_by_clients(), LogApi(service.url, name, transport=service) as api:
        yield api


@pytest.fixture
def serve(database_url: str) -> Serve:
    """Serve a database of this test's own, again and again, and call the log of one stream."""

    @contextmanager
    def start(**settings: Any) -> Iterator[LogApi]:
        with (
            served_in_process(ServeSettings(database_url=database_url, **settings)) as service,
            service.reached_by_clients(),
            LogApi(service.url, "tests/log", transport=service) as log,
        ):
            yield log

    return start


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[QuietWorld]:
    """A controller under virtual time, or as many as a test asks for."""
    with quiet_world(getattr(request, "param", 1)) as world:
        yield world
