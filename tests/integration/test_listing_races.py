"""Lists of what other controllers hold, while some of it is deleted."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, Table

from controller.configuration import ServeSettings
from controller.schema import streams
from controller.store import streams as storage
from tests.integration.in_process import in_process
from tests.postgres import Cluster
from tests.server import Api, ServerProcess
from tidegauge.names import StreamName

NAMES = ["tests/a", "tests/b", "tests/c", "tests/d", "tests/e"]
ELSEWHERE = """
    INSERT INTO controllers (address, expires_at, listening_ms)
        VALUES ('', clock_timestamp() + interval '1 hour', 0);
    UPDATE streams SET holder = (SELECT max(id) FROM controllers);
    UPDATE reader_groups SET holder = (SELECT max(id) FROM controllers);
"""


def _fill(directory: Path, url: str, cluster: Cluster) -> None:
    """Make streams and groups that a controller holds which nobody can ask."""
    with ServerProcess(directory, database_url=url) as server:
        for name in NAMES:
            with Api(server.url, name) as api:
                api.create(log="embedded")
                group = api.client.put(f"/v1/reader-groups/{name}", json={"streams": [name]})
                group.raise_for_status()
        assert server.stop() == 0
    with cluster.connect(cluster.name_of(url)) as connection:
        connection.execute(ELSEWHERE.encode())


async def _listed(client: httpx.AsyncClient, kind: str, one: str) -> list[str]:
    """Read a list two by two, to its end."""
    found: list[str] = []
    query = {"limit": "2"}
    while True:
        page = (await client.get(f"/v1/{kind}", params=query)).raise_for_status().json()
        found += [entry[one] for entry in page[f"{one}s"]]
        if page["cursor"] is None:
            return found
        query["cursor"] = page["cursor"]


def test_a_list_goes_on_although_some_of_a_page_is_deleted_meanwhile(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = cluster.database()
    _fill(tmp_path, url, cluster)
    read_names = storage.read_names

    def and_then_delete(connection: Connection, table: Table, **more: Any) -> list[StreamName]:
        names: list[StreamName] = read_names(connection, table, **more)
        column = "stream" if table is streams else "reader_group"
        with cluster.connect(cluster.name_of(url)) as other:
            other.execute(f"DELETE FROM {table.name} WHERE {column} = 'b'".encode())
        return names

    monkeypatch.setattr(storage, "read_names", and_then_delete)

    async def scene() -> None:
        settings = ServeSettings(database_url=url)
        async with in_process(settings, address="http://127.0.0.1:1") as (_, client):
            left = ["tests/a", "tests/c", "tests/d", "tests/e"]
            assert await _listed(client, "streams", "stream") == left
            assert await _listed(client, "reader-groups", "group") == left

    asyncio.run(scene())
