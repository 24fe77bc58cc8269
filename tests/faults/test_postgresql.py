"""What is particular to PostgreSQL: its settings, its refusals, and connections that are lost."""

import asyncio
import json
import os
import socket
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError, ProgrammingError

from controller.cluster import lease, open_right
from controller.configuration import ServeSettings
from controller.database import (
    DatabaseAddress,
    DatabaseUnusableError,
    PostgresDatabase,
    upgrade_database,
)
from tests.databases import open_database
from tests.patience import wait_until
from tests.postgres import Cluster, pooled, running_cluster
from tests.server import ServerProcess, free_port
from tests.service.api import Api
from tests.service.in_process import called_in_process, in_process
from tests.service.problems import check_problem
from tests.service.sessions import connected
from tidegauge.errors import OutcomeUnknownError

STREAM = "/v1/streams/tests/one"
NOTE = f"{STREAM}/writers/w/note-time"
EXTERNAL = {"log": "external", "segments": 1, "mark_interval_ms": 0}
REPORT = {"time": 1_700_000_000_000, "position": {"0": 1}}
SECRET = "correct-horse"


@pytest.fixture
def database_url(cluster: Cluster) -> str:
    return cluster.database()


def test_commits_wait_for_the_disk_even_where_that_is_not_the_default(
    cluster: Cluster, database_url: str
) -> None:
    name = cluster.name_of(database_url)
    with cluster.connect() as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with closing(open_database(database_url)) as database:
        shown = database.change(lambda one: one.scalar(text("SHOW synchronous_commit")))
        assert asyncio.run(shown) == "on"


@pytest.mark.parametrize(
    "made",
    [
        ["CREATE DATABASE {} TEMPLATE template0 ENCODING SQL_ASCII"],
        ["CREATE DATABASE {}", "ALTER DATABASE {} SET datestyle = 'German'"],
    ],
    ids=["encoding", "datestyle"],
)
def test_a_database_may_have_an_encoding_and_a_style_of_dates_of_its_own(
    cluster: Cluster, made: list[str], request: pytest.FixtureRequest
) -> None:
    name = f"own_ways_{request.node.callspec.indices['made']}"
    with cluster.connect() as connection:
        for command in made:
            connection.execute(command.format(name).encode())
    settings = ServeSettings(database_url=cluster.url(name))
    upgrade_database(settings.database_url)

    async def scene() -> None:
        async with in_process(settings) as (_, client):
            (await client.put(STREAM, json=EXTERNAL)).raise_for_status()
            (await client.post(NOTE, json=REPORT)).raise_for_status()
        async with in_process(settings) as (_, client):
            listed = (await client.get(f"{STREAM}/writers")).json()["writers"]
            assert [writer["writer"] for writer in listed] == ["w"]

    asyncio.run(scene())


def test_a_server_that_is_lost_without_a_word_is_noticed_after_ten_seconds() -> None:
    port = free_port()
    with running_cluster(port=port) as cluster:
        name = cluster.name_of(cluster.database())
        with cluster.connect() as connection:
            connection.execute(f"ALTER ROLE tidegauge PASSWORD '{SECRET}'".encode())
        url = f"postgresql://tidegauge:{SECRET}@127.0.0.1:{port}/{name}"
        assert asyncio.run(_longest_silences(url)) == [10, 10]


async def _longest_silences(url: str) -> list[int]:
    """Return how long the connections of a controller wait for a server that says nothing."""
    with closing(open_database(url)) as database:
        return [await database.change(_silence_of), await database.read(_silence_of)]


def _silence_of(connection: Connection) -> int:
    raw: Any = connection.connection.driver_connection
    with socket.socket(fileno=os.dup(raw.fileno())) as tcp:
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, interval, count = (
            tcp.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        return idle + interval * count


DIES_AT_COMMIT = """
    CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_terminate_backend(pg_backend_pid());
        PERFORM pg_sleep(10);
    END
    $$;
    CREATE CONSTRAINT TRIGGER die AFTER INSERT ON listening
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die();
"""


def test_what_became_of_a_commit_that_lost_its_connection_is_said_to_be_unknown(
    database_url: str,
) -> None:
    with connected(database_url) as connection:
        connection.exec_driver_sql(DIES_AT_COMMIT)

    def insert(connection: Connection) -> None:
        connection.exec_driver_sql("INSERT INTO listening VALUES (1, 0)")

    async def scene() -> None:
        with closing(open_database(database_url)) as database:
            assert isinstance(database, PostgresDatabase)
            for way in (partial(database.write, rows=1), database.change):
                with pytest.raises(OutcomeUnknownError):
                    await way(insert)

    asyncio.run(scene())


def test_a_controller_whose_row_is_gone_accepts_nothing_more(database_url: str) -> None:
    async def scene() -> None:
        settings = ServeSettings(database_url=database_url, lease_ms=2_000)
        async with in_process(settings) as (app, client):
            (await client.put(STREAM, json=EXTERNAL)).raise_for_status()
            ended = app.parts.health
            with connected(database_url) as connection:
                connection.exec_driver_sql("DELETE FROM holder")
            notes = []
            while not ended.ended:
                notes.append(asyncio.create_task(client.post(NOTE, json=REPORT)))
                await asyncio.sleep(0.001)
            statuses = {answer.status_code for answer in await asyncio.gather(*notes)}
            assert 200 not in statuses

    asyncio.run(scene())


def test_one_that_is_away_is_told_without_its_place_and_logged_in_plain_lines_once(
    tmp_path: Path, own_cluster: Cluster
) -> None:
    url = own_cluster.database()
    server = ServerProcess(tmp_path, database_url=url, lease_ms=500, log_format="json")
    with server, Api(server.url) as api:
        api.create()
        own_cluster.stop()
        found = api.client.get(f"{STREAM}/marks/at", params={"time": 1})
        for answer in (found, api.client.post(NOTE, json=REPORT)):
            document = check_problem(answer, 503, "unavailable")
            assert document["detail"] == (
                "nothing was stored: the database is away; try again later"
            )
            assert answer.headers["retry-after"] == "1"
        reasons = check_problem(api.client.get("/readyz"), 503, "unhealthy")["reasons"]
        assert "the database cannot be read; the log says why" in reasons
        assert api.client.get("/healthz").is_success
        wait_until(lambda: "tidegauge_holds_database 0.0\n" in server.metrics())
        _check_troubles(server, own_cluster)
        own_cluster.start()
        wait_until(lambda: "tidegauge_holds_database 1.0\n" in server.metrics())
        wait_until(lambda: api.client.get("/readyz").is_success)


def _check_troubles(server: ServerProcess, cluster: Cluster) -> None:
    """Check that the log has a plain line for each reason, however often something is tried."""
    lines = [
        json.loads(line) for line in server.log.read_text().splitlines() if line[:1] == "{"
    ]
    messages = [line["message"] for line in lines if line["level"] in {"warning", "error"}]
    assert len(set(messages)) == len(messages)
    assert not any("exception" in line for line in lines)
    said = "\n".join(messages)
    assert f'connection to server on socket "{cluster.directory}' in said
    assert "No such file or directory Is the server running locally" in said
    assert " at 0x" not in said


def _send_a_wrong_value(connection: Connection) -> None:
    place = "?" if connection.dialect.name == "sqlite" else "%s"
    connection.exec_driver_sql(f"SELECT {place}", (object(),))


def _send_too_many_values(connection: Connection) -> None:
    values = tuple(range(70_000))
    connection.exec_driver_sql(f"SELECT {', '.join(['%s'] * len(values))}", values)


@pytest.mark.parametrize(
    ("work", "error"),
    [(_send_a_wrong_value, ProgrammingError), (_send_too_many_values, DBAPIError)],
)
def test_a_statement_that_cannot_be_sent_is_a_defect_and_no_outage(
    database_url: str, work: Callable[[Connection], None], error: type[DBAPIError]
) -> None:
    async def scene() -> None:
        with closing(open_database(database_url)) as database:
            for way in (partial(database.write, rows=1), database.change, database.read):
                with pytest.raises(error):
                    await way(work)
                await database.read(database.check)

    asyncio.run(scene())


def test_behind_a_pooler_it_serves_only_where_sessions_stay(
    cluster: Cluster, database_url: str
) -> None:
    with pooled(cluster, database_url, "transaction") as url:
        with pytest.raises(DatabaseUnusableError, match="set pool_mode = session"):
            open_right(ServeSettings(database_url=url))
        # Where nobody else was there at the start, a renewal sees it.
        engine = create_engine(DatabaseAddress.parse(url).url)
        with engine.connect() as own, engine.connect() as other:
            assert _renew_nobody(own) + 1 == _renew_nobody(own)
            other.exec_driver_sql("SELECT 1")  # in a transaction, with the latest backend
            with pytest.raises(DatabaseUnusableError, match="pooler"):
                _renew_nobody(own)
        engine.dispose()
    with (
        pooled(cluster, database_url, "session") as url,
        called_in_process(ServeSettings(database_url=url)) as client,
    ):
        client.put(STREAM, json=EXTERNAL).raise_for_status()
        assert client.post(NOTE, json=REPORT).is_success


def _renew_nobody(connection: Connection) -> int:
    with connection.begin():
        number = lease._renew(connection, "nobody")
    assert number is not None
    return number
