"""Who calls while the database fails is told why, and nothing about where it is."""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, ProgrammingError

from tests.conftest import NewServer
from tests.databases import open_database
from tests.postgres import Cluster
from tests.server import Api, ServerProcess

pytestmark = pytest.mark.about_sql

NDJSON = {"content-type": "application/x-ndjson"}
NOTE = {"time": 1, "position": {}}
FULL = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file "base/16384/2619": %', TG_ARGV[0]
    USING ERRCODE = TG_ARGV[1];
END $$
"""


def _detail(answer: httpx.Response) -> str:
    document = answer.json()
    assert (answer.status_code, document["code"]) == (503, "unavailable")
    assert "retry-after" in answer.headers
    detail: str = document["detail"]
    return detail


@pytest.mark.only_on("sqlite", "only a file's size is bounded by the service")
def test_a_full_sqlite_database(new_server: NewServer) -> None:
    full = new_server(max_database_bytes=300_000)
    with full as server, Api(server.url) as api:
        api.client.put(api.path, json={"segments": 1}).raise_for_status()
        line = f'{{"key": "k", "value": "{"".join(map(str, range(100_000)))}"}}\n'
        answer = api.client.post(f"{api.path}/events", content=line, headers=NDJSON)
        assert _detail(answer) == (
            "nothing was stored: the database has no room: its disk is full (free some of it), or "
            "--max-database-bytes is reached (raise it, or delete streams); try again later"
        )
        assert "the database says: database or disk is full" in server.log.read_text()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("53100", "the database has no room: its disk is full (free some of it)"),
        ("25006", "the database cannot be written to"),
        ("57014", "the database refuses; the log of the service says why"),
    ],
)
def test_what_postgresql_refuses(
    tmp_path: Path, cluster: Cluster, code: str, reason: str
) -> None:
    url = cluster.database()
    with ServerProcess(tmp_path, database_url=url) as server, Api(server.url) as api:
        api.create()
        with _connect(cluster, url) as connection:
            connection.execute(FULL)
            connection.execute(
                "CREATE TRIGGER refuse BEFORE INSERT ON changelog "
                f"EXECUTE FUNCTION refuse('no space', '{code}')"
            )
        answer = api.client.post(f"{api.path}/writers/w/note-time", json=NOTE)
        assert _detail(answer) == f"nothing was stored: {reason}; try again later"
        assert 'says: could not extend file "base/16384/2619"' in server.log.read_text()


def test_postgresql_is_away(tmp_path: Path, own_cluster: Cluster) -> None:
    url = own_cluster.database()
    with ServerProcess(tmp_path, database_url=url) as server, Api(server.url) as api:
        api.create()
        own_cluster.stop()
        told = _detail(api.client.get(f"{api.path}/marks/at", params={"time": 1}))
        assert told == "nothing was stored: the database is away; try again later"
        refused = api.client.post(f"{api.path}/writers/w/note-time", json=NOTE)
        assert _detail(refused) == told
        log = server.log.read_text()
        assert f'connection to server on socket "{own_cluster.directory}' in log
        assert "No such file or directory Is the server running locally" in log
        assert not re.search(r"\\x0a| at 0x", log)


def _send_a_wrong_value(connection: Connection) -> None:
    place = "?" if connection.dialect.name == "sqlite" else "%s"
    connection.exec_driver_sql(f"SELECT {place}", (object(),))


def _send_too_many_values(connection: Connection) -> None:
    values = tuple(range(70_000))
    connection.exec_driver_sql(f"SELECT {', '.join(['%s'] * len(values))}", values)


def test_a_value_that_cannot_be_sent_is_a_defect_and_no_outage(database_url: str) -> None:
    _fails_in_all_ways(database_url, _send_a_wrong_value, ProgrammingError)


@pytest.mark.only_on("postgresql", "SQLite itself says so")
def test_a_statement_that_is_too_large_to_be_sent_is_a_defect(database_url: str) -> None:
    _fails_in_all_ways(database_url, _send_too_many_values, DBAPIError)


def _fails_in_all_ways(
    database_url: str, work: Callable[[Connection], None], error: type[DBAPIError]
) -> None:
    async def run() -> None:
        database = open_database(database_url)
        try:
            for way in (partial(database.write, rows=1), database.change, database.read):
                with pytest.raises(error):
                    await way(work)
                await database.read(database.check)
        finally:
            database.close()

    asyncio.run(run())


def _connect(cluster: Cluster, url: str) -> psycopg.Connection[Any]:
    return cluster.connect(cluster.name_of(url))
