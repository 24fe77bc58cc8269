"""Several controllers over one PostgreSQL database, for tests."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.patience import LONG_LEASE_MS
from tests.postgres import Cluster
from tests.server import ServerProcess

LEASE_MS = 1_500
"""Of controllers whose leases shall be lost."""
NOW = 1_700_000_000_000
SETTINGS = {"log": "external", "segments": 1, "mark_interval_ms": 0, "mark_resolution_ms": 0}


class Controllers:
    """Some controllers, and a look into their database.

    Parameters
    ----------
    cluster
        Where the database is.
    database_url
        Its address.
    servers
        Not started yet.
    """

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

    def held(self) -> list[int]:
        """Count what each controller holds, and at last what nobody does."""
        counts = self.query(
            "SELECT count(key) FROM controllers LEFT JOIN streams ON holder = id "
            "GROUP BY id ORDER BY id"
        )
        free = self.query("SELECT count(*) FROM streams WHERE holder IS NULL")
        return [count for (count,) in counts + free]

    def holder_of(self, stream: str) -> ServerProcess:
        """Find the server that holds a stream."""
        scope, _, name = stream.partition("/")
        found = self.query(
            "SELECT address FROM controllers JOIN streams ON holder = id "
            f"WHERE scope = '{scope}' AND stream = '{name}'"
        )
        return next(one for one in self.servers if [(one.url,)] == found)


@contextmanager
def controllers(
    cluster: Cluster, directory: Path, count: int, **options: object
) -> Iterator[Controllers]:
    """Start some, one after another, with long leases unless others are asked for."""
    url = cluster.database()
    servers = []
    with ExitStack() as stack:
        for number in range(count):
            place = directory / str(number)
            place.mkdir()
            settings = {"lease_ms": LONG_LEASE_MS} | options
            server = ServerProcess(place, database_url=url, **settings)  # type: ignore[arg-type]
            servers.append(stack.enter_context(server))
        yield Controllers(cluster, url, servers)


def create(url: str, *names: str, **settings: object) -> None:
    for name in names:
        wanted = SETTINGS | settings
        httpx.put(f"{url}/v1/streams/{name}", json=wanted, timeout=20).raise_for_status()


def note(url: str, stream: str, at: int, writer: str = "w", **more: object) -> httpx.Response:
    report = {"time": NOW + at, "position": {"0": at}} | more
    path = f"{url}/v1/streams/{stream}/writers/{writer}/note-time"
    return httpx.post(path, json=report, timeout=20)
