"""Several controllers over one PostgreSQL database, for tests."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.patience import LONG_LEASE_MS, wait_until
from tests.postgres import Cluster
from tests.server import ServerProcess, free_port, is_well

LEASE_MS = 1_500
"""Of controllers whose leases shall be lost."""
BOUND_S = 2 * LEASE_MS / 1_000 + 1
"""Of a take-over, but for the time to read."""
BUSY_S = 4.0
"""How late things may be because this machine is busy."""
STREAM = "tests/one"
NOW = 1_700_000_000_000
SETTINGS = {"log": "external", "segments": 1, "mark_interval_ms": 0, "mark_resolution_ms": 0}


class Controllers:
    """Some controllers, and a look into their database, which is on a cluster."""

    def __init__(
        self, cluster: Cluster, database_url: str, servers: list[ServerProcess]
    ) -> None:
        self.servers = servers
        self.database_url = database_url
        self._cluster = cluster
        self._name = cluster.name_of(database_url)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with self.connect() as connection:
            return connection.execute(text.encode()).fetchall()

    def connect(self) -> psycopg.Connection[Any]:
        """Connect to the database, every statement a transaction of its own."""
        return self._cluster.connect(self._name)

    @property
    def holder(self) -> ServerProcess:
        """The server that answers."""
        wait_until(lambda: any(is_ready(one) for one in self.servers))
        return next(one for one in self.servers if is_ready(one))

    @property
    def standbys(self) -> list[ServerProcess]:
        """All others."""
        holder = self.holder
        return [one for one in self.servers if one is not holder]


@contextmanager
def controllers(
    cluster: Cluster,
    directory: Path,
    count: int,
    *,
    database_url: str | None = None,
    **options: object,
) -> Iterator[Controllers]:
    """Start some, of which the first holds the database: a new one, or that at an address."""
    url = database_url or cluster.database()
    servers = []
    with ExitStack() as stack:
        for number in range(count):
            place = directory / str(number)
            place.mkdir()
            server = controller(place, url, **options)
            stack.callback(server.__exit__)
            if number == 0:
                server.start()
            else:
                server.launch()
                wait_until(partial(answers, server))
            servers.append(server)
        yield Controllers(cluster, url, servers)


def controller(directory: Path, database_url: str, **options: object) -> ServerProcess:
    """Make one that is not started yet, with a long lease unless another is asked for."""
    port = free_port()
    advertised = f"http://127.0.0.1:{port}"
    settings: dict[str, Any] = {"lease_ms": LONG_LEASE_MS, "advertise_url": advertised}
    settings |= options
    return ServerProcess(directory, database_url=database_url, port=port, **settings)


def is_ready(server: ServerProcess) -> bool:
    """Tell whether a server holds the database."""
    return is_well(f"{server.url}/readyz")


def answers(server: ServerProcess) -> bool:
    """Tell whether a server is alive."""
    return is_well(f"{server.url}/healthz")


def create(url: str, *names: str, **settings: object) -> None:
    for name in names:
        wanted = SETTINGS | settings
        httpx.put(f"{url}/v1/streams/{name}", json=wanted, timeout=20).raise_for_status()


def note(url: str, stream: str, at: int, writer: str = "w", **more: object) -> httpx.Response:
    report = {"time": NOW + at, "position": {"0": at}} | more
    path = f"{url}/v1/streams/{stream}/writers/{writer}/note-time"
    return httpx.post(path, json=report, timeout=20)


def watermark(server: ServerProcess) -> int:
    shown: int = httpx.get(f"{server.url}/v1/streams/{STREAM}").json()["watermark"]
    return shown
