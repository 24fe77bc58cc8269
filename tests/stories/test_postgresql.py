"""What is particular to PostgreSQL: addresses, the schema's revision, losing the connection."""

import asyncio
import os
import socket
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, text
from typer.testing import CliRunner, Result

from controller.database import DatabaseUnusableError, postgresql
from controller.database.postgresql import PostgresDatabase
from tests.databases import open_database
from tests.patience import PATIENCE_S, until
from tests.postgres import Cluster, running_cluster
from tests.server import Api, ServerProcess, free_port
from tidegauge.errors import OutcomeUnknownError
from tidegauge_cli.verbs import app

SECRET = "correct-horse"
RESTARTS = 3


@pytest.fixture
def database_url(cluster: Cluster) -> str:
    return cluster.database()


def _with_password(url: str) -> str:
    return url.replace("tidegauge@", f"tidegauge:{SECRET}@")


def _upgrade(url: str) -> Result:
    return CliRunner().invoke(app, ["db", "upgrade", "--database-url", url])


def test_a_database_without_a_schema_is_refused_with_the_command_to_run(
    tmp_path: Path, cluster: Cluster
) -> None:
    url = cluster.empty_database()
    said = ServerProcess(tmp_path, database_url=url).refusal()
    assert f"run: tidegauge db upgrade --database-url '{url}'" in said


def test_the_upgrade_makes_the_schema_and_may_be_repeated(
    tmp_path: Path, cluster: Cluster
) -> None:
    url = cluster.empty_database()
    for _ in range(2):
        upgraded = _upgrade(_with_password(url))
        assert upgraded.exit_code == 0, upgraded.exception
        assert upgraded.stdout == f"{url} has the newest schema\n"
    with ServerProcess(tmp_path, database_url=url) as server, Api(server.url) as api:
        api.create()
        assert api.note("w", 7)["watermark"] == 7


def test_the_upgrade_waits_for_a_name_that_is_not_known_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A network of containers knows the name of one only once that one runs."""
    asked: list[str] = []
    paused: list[float] = []
    ask = socket.getaddrinfo

    def find(host: str, *args: Any, **options: Any) -> Any:
        if host != "late.invalid":
            return ask(host, *args, **options)
        asked.append(host)
        if len(asked) <= 3:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ask("127.0.0.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", find)
    monkeypatch.setattr(postgresql, "sleep", paused.append)
    tried = _upgrade("postgresql://tidegauge@late.invalid:1/x")
    assert 'connection to server at "127.0.0.1", port 1 failed' in str(tried.exception)
    assert len(paused) == 3


def test_the_upgrade_does_not_wait_for_ever_for_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    passed_s = 0.0

    def pause(for_s: float) -> None:
        nonlocal passed_s
        passed_s += for_s

    monkeypatch.setattr(postgresql, "sleep", pause)
    monkeypatch.setattr(postgresql, "monotonic", lambda: passed_s)
    failed = _upgrade("postgresql://tidegauge@nosuch.invalid/x")
    assert (failed.exit_code, passed_s >= 10) == (1, True)
    assert "failed to resolve host 'nosuch.invalid'" in str(failed.exception)


def test_a_schema_of_an_unknown_version_is_refused_by_serve_and_upgrade(
    tmp_path: Path, cluster: Cluster, database_url: str
) -> None:
    with cluster.connect(cluster.name_of(database_url)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    assert (
        "has schema version 9999"
        in ServerProcess(tmp_path, database_url=database_url).refusal()
    )
    upgraded = _upgrade(database_url)
    assert upgraded.exit_code == 1
    assert "use the version of Tidegauge that made it" in str(upgraded.exception)


def test_the_password_is_never_shown(tmp_path: Path, cluster: Cluster) -> None:
    url = _with_password(cluster.database())
    with ServerProcess(tmp_path, database_url=url) as server:
        said = server.log.read_text()
    assert f"database {url.replace(f':{SECRET}', '')}\n" in said
    refused = ServerProcess(
        tmp_path, database_url=_with_password(cluster.empty_database())
    ).refusal()
    failed = _upgrade(f"postgresql://tidegauge:{SECRET}@127.0.0.1:1/x")
    assert failed.exit_code == 1
    for shown in (said, refused, failed.output, str(failed.exception)):
        assert SECRET not in shown


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://tidegauge:{SECRET}@127.0.0.1:1/x?password={SECRET}",
        f"mysql://tidegauge:{SECRET}@localhost/x",
        f"postgresql:/tidegauge:{SECRET}@localhost/x",
        f"postgresql+asyncpg://tidegauge:{SECRET}@localhost:port/x",
    ],
)
def test_an_error_about_an_address_leaves_its_password_out(url: str) -> None:
    with pytest.raises(DatabaseUnusableError) as refused:
        open_database(url)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_size_is_refused_since_it_is_bounded_there(tmp_path: Path, database_url: str) -> None:
    server = ServerProcess(tmp_path, database_url=database_url, max_database_bytes=1_000_000)
    assert "the size of a PostgreSQL database is bounded there" in server.refusal()


def test_commits_wait_for_the_disk_even_where_that_is_not_the_default(
    cluster: Cluster, database_url: str
) -> None:
    name = cluster.name_of(database_url)
    with cluster.connect() as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")

    async def shown() -> object:
        database = open_database(database_url)
        try:
            return await database.change(
                lambda connection: connection.scalar(text("SHOW synchronous_commit"))
            )
        finally:
            database.close()

    assert asyncio.run(shown()) == "on"


@pytest.mark.parametrize(
    "made",
    [
        ["CREATE DATABASE {} TEMPLATE template0 ENCODING SQL_ASCII"],
        ["CREATE DATABASE {}", "ALTER DATABASE {} SET datestyle = 'German'"],
    ],
)
def test_a_database_may_have_an_encoding_and_a_style_of_dates_of_its_own(
    tmp_path: Path, cluster: Cluster, made: list[str], request: pytest.FixtureRequest
) -> None:
    name = f"own_ways_{request.node.callspec.indices['made']}"
    with cluster.connect() as connection:
        for command in made:
            connection.execute(command.format(name).encode())
    url = cluster.url(name)
    upgraded = _upgrade(url)
    assert upgraded.exit_code == 0, upgraded.exception
    with ServerProcess(tmp_path, database_url=url) as server, Api(server.url) as api:
        api.create()
        assert api.note("w", 7)["watermark"] == 7
        server.kill()
        server.start()
        assert [one["writer"] for one in api.get("writers")["writers"]] == ["w"]


def test_a_server_that_is_lost_without_a_word_is_noticed_after_ten_seconds() -> None:
    port = free_port()
    with running_cluster(port=port) as cluster:
        name = cluster.name_of(cluster.database())
        with cluster.connect() as connection:
            connection.execute(f"ALTER ROLE tidegauge PASSWORD '{SECRET}'".encode())
        url = f"postgresql://tidegauge:{SECRET}@127.0.0.1:{port}/{name}"
        assert asyncio.run(_longest_silences(url)) == [10, 10]


async def _longest_silences(url: str) -> list[int]:
    """Look how long the connections of a controller wait for a server that says nothing."""
    database = open_database(url)
    assert isinstance(database, PostgresDatabase)
    try:
        return [await database.change(_silence_of), await database.read(_silence_of)]
    finally:
        database.close()


def _silence_of(connection: Connection) -> int:
    raw: Any = connection.connection.driver_connection
    return _silence_s(raw.fileno())


def _silence_s(descriptor: int) -> int:
    with socket.socket(fileno=os.dup(descriptor)) as one:
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, interval, count = (
            one.getsockopt(socket.IPPROTO_TCP, option)
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
    cluster: Cluster, database_url: str
) -> None:
    with cluster.connect(cluster.name_of(database_url)) as connection:
        connection.execute(DIES_AT_COMMIT)

    def insert(connection: Connection) -> None:
        connection.exec_driver_sql("INSERT INTO listening VALUES (1, 0)")

    async def run() -> None:
        database = open_database(database_url)
        assert isinstance(database, PostgresDatabase)
        try:
            ways = (partial(database.write, rows=1), database.change)
            for way in ways:
                with pytest.raises(OutcomeUnknownError):
                    await way(insert)
        finally:
            database.close()

    asyncio.run(run())


def test_a_restart_of_the_database_loses_nothing_that_was_accepted(
    tmp_path: Path, own_cluster: Cluster
) -> None:
    url = own_cluster.database()
    with ServerProcess(tmp_path, database_url=url) as server, Api(server.url) as api:
        api.create(mark_resolution_ms=0)
        accepted: dict[str, int] = {}
        refused = asyncio.run(_note_through_restarts(server.url, own_cluster, accepted))
        codes = {(one.status_code, one.json()["code"]) for one in refused}
        assert codes <= {(502, "outcome_unknown"), (503, "unavailable")}
        assert refused
        in_memory = _state(api)
        for name, time in accepted.items():
            assert in_memory[name]["time"] == time
        server.kill()
        server.start()
        assert _state(api) == in_memory


async def _note_through_restarts(
    url: str, cluster: Cluster, accepted: dict[str, int]
) -> list[httpx.Response]:
    """Note times from four writers while the database restarts, until all have gone on."""
    refused: list[httpx.Response] = []
    restarts = 0

    async def write(client: httpx.AsyncClient, name: str) -> None:
        time, seen = 0, -1
        while seen < RESTARTS:
            time += 1
            call = f"/v1/streams/tests/one/writers/{name}/note-time"
            report = {"time": time, "position": {"0": time}}
            answer = await client.post(call, json=report)
            if answer.is_success:
                accepted[name], seen = time, restarts
            else:
                refused.append(answer)
                time -= 1

    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        writers = [asyncio.create_task(write(client, f"w{number}")) for number in range(4)]
        for _ in range(RESTARTS):
            await _until_all_went_on(accepted, writers)
            await asyncio.to_thread(cluster.restart)
            restarts += 1
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*writers)
    return refused


async def _until_all_went_on(
    accepted: dict[str, int], writers: list[asyncio.Task[None]]
) -> None:
    before = dict(accepted)

    def went_on() -> bool:
        later = sum(time > before.get(name, 0) for name, time in accepted.items())
        return later == len(writers)

    await until(lambda: went_on() or any(one.done() for one in writers))
    for one in writers:
        if one.done():
            one.result()


def _state(api: Api) -> dict[str, Any]:
    return {
        one["writer"]: {name: one[name] for name in ("time", "position", "incarnation")}
        for one in api.get("writers")["writers"]
    }
