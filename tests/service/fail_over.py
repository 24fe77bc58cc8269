"""Two controllers over one PostgreSQL database, of which the first holds it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.postgres import Cluster
from tests.server import ServerProcess
from tests.service.controllers import Controllers, controllers, create

LEASE_MS = 1_000
BOUND_S = 2 * LEASE_MS / 1_000 + 1
"""Of a take-over, but for the time to read."""
BUSY_S = 4.0
"""How late things may be because this machine is busy."""
STREAM = "tests/one"


@pytest.fixture
def two(cluster: Cluster, tmp_path: Path) -> Iterator[Controllers]:
    with controllers(cluster, tmp_path, 2, lease_ms=LEASE_MS) as running:
        create(running.servers[0].url, STREAM)
        yield running


def watermark(server: ServerProcess) -> int:
    shown: int = httpx.get(f"{server.url}/v1/streams/{STREAM}").json()["watermark"]
    return shown
