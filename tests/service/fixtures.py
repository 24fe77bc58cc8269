"""Fixtures of stories and faults: on both databases, see those of all tests."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.certificates import Files
from tests.patience import SHORT_LEASE_MS
from tests.postgres import Cluster, running_cluster
from tests.server import ServerProcess
from tests.service.api import Api, Open
from tests.service.controllers import LEASE_MS, STREAM, Controllers, controllers, create
from tests.service.observed import Observed

_NUMBERS = count(1)


@pytest.fixture(scope="package", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust nobody: each client would read the 150 certificates of all the world's authorities."""
    with pytest.MonkeyPatch.context() as patched:
        authority = Files(tmp_path_factory.mktemp("authority")).authority
        patched.setenv("SSL_CERT_FILE", str(authority))
        yield


@pytest.fixture(scope="package", autouse=True)
def short_leases() -> Iterator[None]:
    """Let a controller that is killed and started again wait for a short lease only."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TIDEGAUGE_LEASE_MS", str(SHORT_LEASE_MS))
        yield


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """A PostgreSQL server that only the tests of one module use, to stop it for instance."""
    with running_cluster() as running:
        yield running


@pytest.fixture
def two(cluster: Cluster, tmp_path: Path) -> Iterator[Controllers]:
    """Two controllers over one PostgreSQL database, of which the first holds it, with a stream."""
    with controllers(cluster, tmp_path, 2, lease_ms=LEASE_MS) as running:
        create(running.servers[0].url, STREAM)
        yield running


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    """Calls to the server of this test."""
    with Api(server.url) as calls:
        yield calls


@pytest.fixture
def open_shop(shared_server: ServerProcess) -> Iterator[Open]:
    """Make streams of this test's own on the shared server."""
    with ExitStack() as streams:

        def make(**settings: object) -> Api:
            name = f"shop/orders-{next(_NUMBERS)}"
            shop = streams.enter_context(Api(shared_server.url, name))
            shop.create(**settings)
            return shop

        yield make


@pytest.fixture
def observed(shared_server: ServerProcess, broker: Broker) -> Iterator[Observed]:
    """A topic of one partition, to be observed for a stream of its own."""
    with Observed(shared_server, broker, 1) as made:
        yield made


@pytest.fixture
def observed_of_two(shared_server: ServerProcess, broker: Broker) -> Iterator[Observed]:
    """A topic of two partitions."""
    with Observed(shared_server, broker, 2) as made:
        yield made
